"""Merging modules that are the same but for their names."""

from primitives.fpga.verilog_modules import merged

LEAF = "module {name}(a, b);\n  input a;\n  output b;\n  assign b = {operator}a;\nendmodule\n"


def middle(name: str, leaf: str) -> str:
    return f"module {name}(a, b);\n  input a;\n  output b;\n  {leaf}  leaf (\n    .a(a),\n    .b(b)\n  );\nendmodule\n"


def test_likes_are_merged_and_what_holds_them_too() -> None:
    leaves = [LEAF.format(name=rf"\top.{n}.leaf ", operator="~") for n in "xyz"]
    other = LEAF.format(name=r"\top.w.leaf ", operator="")
    middles = [middle(rf"\top.{n} ", rf"\top.{n}.leaf") for n in "xyzw"]
    text = merged("\n".join([*leaves, other, *middles]))
    assert text.count("endmodule") == 4  # two leaves and what holds each
    assert r"\top.y" not in text
    assert r"  \top.x.leaf  leaf (" in text
    assert r"  \top.w.leaf  leaf (" in text


def test_a_text_without_likes_stays() -> None:
    text = LEAF.format(name="one", operator="~") + LEAF.format(name="two", operator="")
    assert merged(text) == text
