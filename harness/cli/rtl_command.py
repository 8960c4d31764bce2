"""The command `placerl rtl`, which exports hardware blocks as Verilog."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from placerl.harness.cli.app import app
from placerl.harness.cli.common import JsonOption, print_files, print_json, print_list, say
from placerl.harness.cli.completion import blocks, completed
from placerl.harness.core.errors import UserError
from placerl.harness.core.files import write_atomically

if TYPE_CHECKING:
    from placerl.primitives.fpga.tools.blocks import Block

EXPLORED, DEFAULT_DEVICE = "map-accelerator", "u200"


@app.command(epilog="Example: `placerl rtl replay-pipeline fanout=4 levels=10 -o rtl`")
def rtl(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="BLOCK", help="The block; --list shows their names.", autocompletion=completed(blocks)
        ),
    ] = None,
    parameters: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME=VALUE]...", help="Parameters of the block; with it, --list shows them."
        ),
    ] = None,
    folder: Annotated[Path, typer.Option("-o", "--out", help="Folder for the Verilog.")] = Path("rtl"),
    explored: Annotated[
        str | None,
        typer.Option(
            "--explored",
            metavar="NETWORK",
            help="For map-accelerator: what `placerl explore map NETWORK` chooses for a batch (`batch=`) on --device.",
        ),
    ] = None,
    device: Annotated[
        str | None, typer.Option("--device", help="The FPGA that --explored is for, such as u200.")
    ] = None,
    bench: Annotated[
        bool, typer.Option(help="Also write the block's cocotb bench; to record its vectors takes seconds.")
    ] = True,
    list_parameters: Annotated[
        bool,
        typer.Option(
            "--list", help="Show the block's parameters and defaults, or every block; write nothing."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Export a hardware block as Verilog, with its bench and its FuseSoC core, for an FPGA board of your own."""
    from placerl.primitives.fpga.export import toolchain
    from placerl.primitives.fpga.tools.blocks import BLOCKS

    if list_parameters:
        for field, found in (
            ("NAME=VALUE", " ".join(parameters or ())),
            ("--explored", explored),
            ("--device", device),
        ):
            if found:
                raise UserError("command line", field, found, "nothing with --list, which shows the defaults")
    if name is None and list_parameters:
        print_list({key: block.description for key, block in BLOCKS.items()}, "blocks", as_json)
        return
    if name is None or name not in BLOCKS:
        found = "nothing" if name is None else name
        raise UserError("command line", "BLOCK", found, ", ".join(BLOCKS), name=name or "")
    block = BLOCKS[name]
    if list_parameters:
        _print_parameters(name, block, as_json)
        return
    given: dict[str, str] = {}
    for text in parameters or ():
        key, equals, value = text.partition("=")
        if not equals:
            raise UserError("command line", "NAME=VALUE", text, "a name, =, and a value")
        if key in given:
            raise UserError("command line", key, f"{given[key]} and {value}", "each parameter once")
        given[key] = value
    if device is not None and explored is None:
        raise UserError("command line", "--device", device, "with --explored")
    if explored is not None:
        if name != EXPLORED:
            raise UserError("command line", "--explored", f"{explored} with {name}", f"with {EXPLORED}")
        given = _explored(block, given, explored, device or DEFAULT_DEVICE)
    if missing := toolchain.unavailable_reason():
        raise UserError("this machine", "hardware tools", missing, "pip install 'placerl[fpga]'")
    try:
        values = block.parameters(given)
        design = block.make(**values)
    except ValueError as error:
        _forget_components()
        raise _refused(block, error) from error
    from placerl.primitives.fpga.bench.files import companions
    from placerl.primitives.fpga.export import verilog
    from placerl.primitives.fpga.export.published import published
    from placerl.primitives.fpga.host import with_axi_names
    from placerl.primitives.fpga.tools.design_page import page

    module = name.replace("-", "_")
    # As the command line takes them: "true", not "True".
    stated = " ".join(f"{key}={str(value).lower()}" for key, value in values.items())

    def export(path: Path) -> None:
        text = published(verilog.export(with_axi_names(design), module))
        path.write_text(f"// placerl rtl {name} {stated}\n{text}")

    # The file is created before the export, which takes seconds, so that an unwritable folder is refused at once.
    path = folder / f"{module}.v"
    try:
        write_atomically(path, export)
    except UserError:
        _forget_components()
        raise

    def written() -> Iterator[Path]:
        yield path
        # Another component, because one is elaborated only once.
        files = companions(
            block.make(**values), module, block.description, block.bench if bench else None, block.board
        )
        _forget_components()
        files[f"{module}.md"] = page(block, values, design, path.read_text(), module)
        for file, text in files.items():
            write_atomically(folder / file, lambda path, text=text: path.write_text(text))  # type: ignore[misc]
            yield folder / file

    print_files(written(), as_json)


def _explored(block: "Block", given: dict[str, str], network: str, device: str) -> dict[str, str]:
    """Return the parameters of the accelerator that the exploration chooses, with the given ones."""
    from placerl.harness.cli.explored import explored_accelerator

    try:
        values = block.parameters(given)
    except ValueError as error:
        raise _refused(block, error) from error
    sizes = {key: int(values[key]) for key in ("batch", "fanout", "levels", "leaves")}
    chosen = explored_accelerator(network, device, **sizes)
    for key in given:
        if key in chosen and key not in sizes:
            raise UserError("command line", key, given[key], "without --explored, which chooses it")
    return given | chosen


def _refused(block: "Block", error: ValueError) -> UserError:
    """Return the error of a parameter that a block refuses."""
    field, _, rest = str(error).partition(": found ")
    found, _, allowed = rest.partition("; allowed: ")
    return UserError(f"block {block.name}", field, found or error, allowed or "see --list")


def _print_parameters(name: str, block: "Block", as_json: bool) -> None:
    """Print a block's parameters with their defaults and what is allowed."""
    if as_json:
        parameters = {
            key: {"default": value, "allowed": block.allowed[key]} for key, value in block.defaults.items()
        }
        print_json({"block": name, "description": block.description, "parameters": parameters})
        return
    say(f"{name}: {block.description}")
    defaults = {f"{key}={value}": f"allowed: {block.allowed[key]}" for key, value in block.defaults.items()}
    print_list(defaults, "parameters", as_json=False)


def _forget_components() -> None:
    """Stop Amaranth's warnings about components that were created and never exported, such as refused ones."""
    from amaranth.hdl import UnusedElaboratable

    warnings.simplefilter("ignore", UnusedElaboratable)
