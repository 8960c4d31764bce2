from placerl.primitives.fpga.export.ram_verilog import RAM_VERILOG, with_zeroed_memories


def test_only_simulators_see_that_memories_are_zeroed() -> None:
    text = f"module top;\nendmodule\n{RAM_VERILOG}"
    zeroed = with_zeroed_memories(text)
    before, _, rest = zeroed.partition("`ifndef SYNTHESIS\n")
    inside, _, after = rest.partition("`endif\n")
    assert "words[word] = {WIDTH{1'b0}};" in inside
    assert before + after == text


def test_a_design_without_memories_stays() -> None:
    assert with_zeroed_memories("module top;\nendmodule\n") == "module top;\nendmodule\n"
