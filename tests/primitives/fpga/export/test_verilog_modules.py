"""Merging modules that are the same but for their names."""

from placerl.primitives.fpga.export.verilog_modules import instance_counts, marked, merged

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


def test_instances_are_counted_and_modules_marked() -> None:
    leaf = LEAF.format(name=r"\top.leaf ", operator="~")
    twice = middle("top", r"\top.leaf").replace(
        "endmodule", "  \\top.leaf  again (\n    .a(a)\n  );\nendmodule"
    )
    assert instance_counts(leaf + twice) == {r"\top.leaf": 2}
    text = marked(leaf + twice, {r"\top.leaf"})
    assert text == f"(* keep_hierarchy *)\n{leaf}{twice}"
