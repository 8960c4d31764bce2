"""The Verilog module that replaces every memory of a block (`ram.Ram`) in an export."""

RAM_MODULE = "placerl_ram"

RAM_VERILOG = f"""
// One read port and one write port, both synchronous. A word read while it is written gives the old value.
// Words are 0 at first: UltraRAM and block RAM are cleared when the device is configured.
module {RAM_MODULE} #(parameter WIDTH = 1, parameter DEPTH = 1, parameter ADDRESS_WIDTH = 1) (
  input clk,
  input read_enable,
  input [ADDRESS_WIDTH-1:0] read_address,
  output reg [WIDTH-1:0] read_data,
  input write_enable,
  input [ADDRESS_WIDTH-1:0] write_address,
  input [WIDTH-1:0] write_data
);
  reg [WIDTH-1:0] words [0:DEPTH-1];
  always @(posedge clk) begin
    if (read_enable) read_data <= words[read_address];
    if (write_enable) words[write_address] <= write_data;
  end
endmodule
"""

_WORDS = "  reg [WIDTH-1:0] words [0:DEPTH-1];\n"
_ZEROED = f"""{_WORDS}`ifndef SYNTHESIS
  integer word;
  initial begin
    for (word = 0; word < DEPTH; word = word + 1) words[word] = {{WIDTH{{1'b0}}}};
    read_data = {{WIDTH{{1'b0}}}};
  end
`endif
"""


def with_zeroed_memories(text: str) -> str:
    """Return an exported text whose memories are 0 at first in every simulator, as they are on a device.

    `primitives.fpga.simulation` needs no such text, because Verilator starts with zeros there. Synthesis tools define
    `SYNTHESIS`; they would take minutes for the loop.
    """
    return text.replace(RAM_VERILOG, RAM_VERILOG.replace(_WORDS, _ZEROED))
