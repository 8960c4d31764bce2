from placerl.primitives.fpga.export.published import published

FIFO = """module fifo(clk);
  input clk;
  wire clk;
  wire [-1:0] consume;
  wire [-1:0] r_port__addr;
  wire [1:0] level;
  assign level = 2'h0;
endmodule
"""


def test_signals_without_bits_are_left_out() -> None:
    assert published(FIFO) == "".join(line for line in FIFO.splitlines(keepends=True) if "[-1:0]" not in line)
