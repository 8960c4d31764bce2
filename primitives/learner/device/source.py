"""Generate kernels for the nodes of a step graph, with shapes and strides as literals.

Their language is what all devices share (`primitives/device/prelude.h`).

A kernel's arguments are the arena (the buffer that holds everything) and the byte offset of each view in it, so that
nodes that differ only in the positions of their views share one kernel. The arena begins with what kernels note
(`NOTES`): a 1 if one of Adam's second moments becomes NaN or infinite; and if an index is out of range, the number of
elements that it may choose from, and the index.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod

from placerl.primitives.algorithms.updates import is_second_moment
from placerl.primitives.device import Groups
from placerl.primitives.graph.graph import ITEM_BYTES, Buffer, Instruction, Node, View

TYPES = {
    "float32": "float",
    "float64": "double",
    "int32": "int",
    "int64": "LONG",
    "bool": "BYTE",
    "uint8": "BYTE",
}
HELPERS = """
#define LARGER(a, b) ((a) != (a) ? (a) : (b) != (b) ? (b) : (a) < (b) ? (b) : (a))
#define SMALLER(a, b) ((a) != (a) ? (a) : (b) != (b) ? (b) : (a) > (b) ? (b) : (a))

// The place of an index among `size` elements; a negative one counts from the end, as in PyTorch. One that is out of
// range is noted, and has place 0.
FUNCTION LONG place_of(GLOBAL BYTE *arena, LONG index, LONG size) {
    const LONG place = index < 0 ? index + size : index;
    if (place >= 0 && place < size)
        return place;
    ((GLOBAL LONG *)arena)[1] = size;
    ((GLOBAL LONG *)arena)[2] = index;
    return 0;
}
"""
NOTES = 3  # LONGs
PICKS = frozenset({"gather", "take", "scatter_add"})
"""The kinds of nodes that look indices up."""
TILE = 64  # rows and columns of C that a work-group of 16 x 16 computes
TILE_DEPTH = 16
SMALL_PRODUCT = 4096  # elements of C below which each work-item computes one
WORK_GROUP = 64
DEEP = 1024  # depth of a product, or numbers of a sum, that on a GPU all items of a large group share
DEEP_PRODUCT = 16_384  # elements of C up to which they do so: more have tiles enough
DEEP_TILE = 4  # rows and columns of C that a group computes together
DEEP_GROUP = 256

_FORMULAS: dict[str, str] = {
    "neg": "-{0}",
    "abs": "fabs({0})",
    "sign": "({0} > 0 ? 1 : {0} < 0 ? -1 : {0})",
    "rsqrt": "(1 / sqrt({0}))",
    "reciprocal": "(1 / {0})",
    "sigmoid": "(1 / (1 + exp(-{0})))",
    "round": "rint({0})",
    "logical_not": "!{0}",
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "maximum": "LARGER({0}, {1})",
    "minimum": "SMALLER({0}, {1})",
    "remainder": "(fmod({0}, {1}) + (fmod({0}, {1}) != 0 && ({0} < 0) != ({1} < 0) ? {1} : 0))",
    "logical_and": "({0} && {1})",
    "logical_or": "({0} || {1})",
    "where": "({0} ? {1} : {2})",
    **{name: f"({{0}} {sign} {{1}})" for name, sign in
       zip(("lt", "le", "gt", "ge", "eq", "ne"), ("<", "<=", ">", ">=", "==", "!="), strict=True)},
    **{name: f"{name}({{0}})" for name in
       ("exp", "expm1", "log", "log1p", "sqrt", "sin", "cos", "tanh", "erf", "floor", "ceil")},
    "pow": "pow({0}, {1})",
}  # fmt: skip
_WHOLE_FORMULAS: dict[str, str] = {
    **dict.fromkeys(("floor", "ceil", "round"), "{0}"),
    "abs": "({0} < 0 ? -{0} : {0})",
    "remainder": "({0} % {1} + ({0} % {1} != 0 && ({0} < 0) != ({1} < 0) ? {1} : 0))",
}
"""Formulas for integers where those of floating point take functions that have no integer form."""
_UNSIGNED_FORMULAS = {**_WHOLE_FORMULAS, "abs": "{0}", "remainder": "({0} % {1})"}
_OWN_FORMULAS = {"int32": _WHOLE_FORMULAS, "int64": _WHOLE_FORMULAS, "uint8": _UNSIGNED_FORMULAS}
OPERATIONS = ("constant", "copy", *_FORMULAS)


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel.

    Attributes:
        body: body of the kernel; its arguments are `arena`, the buffer that holds everything, and `o0`, `o1`, ...
        views: the views whose byte offsets are `o0`, `o1`, ...
        size: number of work items, or their groups.
        kind: kind of the node, by which the kernel is named.
    """

    body: str
    views: tuple[View, ...]
    size: int | Groups
    kind: str = "kernel"

    def source(self, name: str) -> str:
        """Return the source of the kernel, with `name` as its name."""
        offsets = "".join(f", const LONG o{i}" for i in range(len(self.views)))
        head = f"KERNEL({name})"
        if isinstance(self.size, Groups):
            head = f"GROUP_KERNEL({name}, {', '.join(map(str, self.size.items))})"
        return f"{head}(GLOBAL BYTE *arena{offsets}) {{\n{self.body}\n}}\n"


def _launch(body: str, views: Sequence[View], items: int) -> Launch:
    """Return a launch with one work item for each of `items`, numbered `item`."""
    guard = f"const LONG item = WORK_ITEM;\nif (item >= {items}) return;\n"
    return Launch(guard + body, tuple(views), items)


def _pointer(position: int, buffer: Buffer, name: str) -> str:
    kind = TYPES[buffer.dtype]
    return f"GLOBAL {kind} *{name} = (GLOBAL {kind} *)(arena + o{position});\n"


def _coordinates(shape: Sequence[int], item: str, prefix: str = "c") -> str:
    """Return code that declares the coordinates of a row-major item number."""
    lines = []
    inner = 1
    for axis in reversed(range(len(shape))):
        quotient = f"{item} / {inner}" if inner > 1 else item
        lines.append(f"const LONG {prefix}{axis} = ({quotient}) % {shape[axis]};\n")
        inner *= shape[axis]
    return "".join(lines)


def _offset(strides: Sequence[int], prefix: str = "c") -> str:
    terms = [f"{prefix}{axis} * {stride}" for axis, stride in enumerate(strides) if stride]
    return " + ".join(terms) or "0"


def launches(node: Node, buffers: Sequence[Buffer], *, is_gpu: bool = False) -> list[Launch]:
    """Return the launches that execute a node of the step graph, in order.

    Args:
        is_gpu: of the device (`Device.is_gpu`): whether long sums are divided among as many work items as can be.
    """
    used = [buffers[view.buffer] for view in (*node.inputs, *node.outputs)]
    make = (is_gpu and _DEEP.get(node.kind)) or _MAKERS[node.kind]
    return [replace(launch, kind=node.kind) for launch in make(node, used)]


def _literal(instruction: Instruction) -> str:
    kind, number = instruction.dtype, instruction.number
    if kind in ("float32", "float64"):
        if number != number:
            return "NAN"
        if number in (float("inf"), float("-inf")):
            return "INFINITY" if number > 0 else "-INFINITY"
        return number.hex() + ("f" if kind == "float32" else "")
    return str(int(instruction.value or 0))


def _elementwise(node: Node, buffers: list[Buffer]) -> list[Launch]:
    views = (*node.inputs, *node.outputs)
    shape = node.outputs[0].shape
    body = "".join(_pointer(i, b, f"p{i}") for i, b in enumerate(buffers)) + _coordinates(shape, "item")
    kinds = [TYPES[b.dtype] for b in buffers[: len(node.inputs)]]
    for i, view in enumerate(node.inputs):
        body += f"const {kinds[i]} r{i} = p{i}[{_offset(view.strides)}];\n"
    for instruction in node.program:
        kind = TYPES[instruction.dtype]
        names = [f"r{number}" for number in instruction.arguments]
        match instruction.op:
            case "constant":
                formula = _literal(instruction)
            case "copy":
                formula = f"({names[0]} != 0)" if instruction.dtype == "bool" else f"({kind}){names[0]}"
            case op:
                formula = _OWN_FORMULAS.get(instruction.dtype, {}).get(op, _FORMULAS[op]).format(*names)
        body += f"const {kind} r{len(kinds)} = {formula};\n"
        kinds.append(kind)
    for i, (view, register) in enumerate(zip(node.outputs, node.results, strict=True), len(node.inputs)):
        body += f"p{i}[{_offset(view.strides)}] = r{register};\n"
        if buffers[i].kind == "state" and is_second_moment(buffers[i].name):
            kind = TYPES[buffers[i].dtype]
            body += f"if (!isfinite(({kind})r{register})) *(GLOBAL LONG *)arena = 1;\n"
    return [_launch(body, views, prod(shape))]


def _matmul(node: Node, buffers: list[Buffer]) -> list[Launch]:
    a, b, c = (*node.inputs, node.outputs[0])
    batch = c.shape[0] if len(c.shape) == 3 else 1
    lead = [v.strides[0] if len(v.shape) == 3 else 0 for v in (a, b, c)]
    (rows, depth), columns = a.shape[-2:], b.shape[-1]
    (a0, a1), (b0, b1), (c0, c1) = (v.strides[-2:] for v in (a, b, c))
    kind = TYPES[buffers[2].dtype]
    pointers = "".join(
        _pointer(i, buffer, name) for i, (buffer, name) in enumerate(zip(buffers, "abc", strict=True))
    )
    if rows * columns < SMALL_PRODUCT:
        body = (
            pointers
            + _coordinates((batch, rows, columns), "item")
            + f"""
{kind} total = 0;
for (int k = 0; k < {depth}; ++k)
    total += a[c0 * {lead[0]} + c1 * {a0} + k * {a1}] * b[c0 * {lead[1]} + k * {b0} + c2 * {b1}];
c[c0 * {lead[2]} + c1 * {c0} + c2 * {c1}] = total;"""
        )
        return [_launch(body, (a, b, c), batch * rows * columns)]
    # Intel's OpenCL compiler, and with it the process, crashes if the only tile is 4 deeper than the product.
    tile_depth = TILE_DEPTH // 2 if depth == TILE_DEPTH - 4 else TILE_DEPTH
    across, down = -(-columns // TILE), -(-rows // TILE)  # tiles of C
    # Consecutive work-items read consecutive elements, along the dense dimension.
    a_index = ("row + y", "k + x") if a1 == 1 else ("row + x", "k + y")
    b_index = ("k + y", "column + x") if b1 == 1 else ("k + x", "column + y")
    body = (
        pointers
        + f"""
LOCAL {kind} left[{tile_depth}][{TILE} + 1];
LOCAL {kind} right[{tile_depth}][{TILE} + 1];
PRIVATE({kind}, total)[4][4];
const LONG column = GROUP % {across} * {TILE}, row = GROUP / {across} % {down} * {TILE};
const LONG matrix = GROUP / {across * down};
a += matrix * {lead[0]}; b += matrix * {lead[1]}; c += matrix * {lead[2]};
ITEMS {{
    for (int i = 0; i < 4; ++i) for (int j = 0; j < 4; ++j) MINE(total)[i][j] = 0;
}}
for (LONG k = 0; k < {depth}; k += {tile_depth}) {{
    PHASE {{
        for (int n = LOCAL_Y * 16 + LOCAL_X; n < {TILE * tile_depth}; n += 256) {{
            {{
                const LONG x = n % {tile_depth if a1 == 1 else TILE}, y = n / {tile_depth if a1 == 1 else TILE};
                const LONG i = {a_index[0]}, d = {a_index[1]};
                left[d - k][i - row] = i < {rows} && d < {depth} ? a[i * {a0} + d * {a1}] : 0;
            }}
            {{
                const LONG x = n % {TILE if b1 == 1 else tile_depth}, y = n / {TILE if b1 == 1 else tile_depth};
                const LONG d = {b_index[0]}, j = {b_index[1]};
                right[d - k][j - column] = j < {columns} && d < {depth} ? b[d * {b0} + j * {b1}] : 0;
            }}
        }}
    }}
    PHASE {{
        for (int d = 0; d < {tile_depth}; ++d)
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 4; ++j)
                    MINE(total)[i][j] += left[d][LOCAL_Y + 16 * i] * right[d][LOCAL_X + 16 * j];
    }}
}}
ITEMS {{
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) {{
            const LONG to_row = row + LOCAL_Y + 16 * i, to_column = column + LOCAL_X + 16 * j;
            if (to_row < {rows} && to_column < {columns}) c[to_row * {c0} + to_column * {c1}] = MINE(total)[i][j];
        }}
}}"""
    )
    return [Launch(body, (a, b, c), Groups(across * down * batch, (16, 16)))]


def _deep_matmul(node: Node, buffers: list[Buffer]) -> list[Launch]:
    """Return the launches of a product, of whose depth each item of a group adds a part where that is worth it.

    So it is for the gradients of weights of a large batch.
    """
    a, b, c = (*node.inputs, node.outputs[0])
    (rows, depth), columns = a.shape[-2:], b.shape[-1]
    kind = TYPES[buffers[2].dtype]
    # In float64 a group's sums would not fit every device's local memory.
    if kind != "float" or depth < DEEP or prod(c.shape) > DEEP_PRODUCT:
        return _matmul(node, buffers)
    pointers = "".join(
        _pointer(i, buffer, name) for i, (buffer, name) in enumerate(zip(buffers, "abc", strict=True))
    )
    lead = [v.strides[0] if len(v.shape) == 3 else 0 for v in (a, b, c)]
    (a0, a1), (b0, b1), (c0, c1) = (v.strides[-2:] for v in (a, b, c))
    high, wide = min(DEEP_TILE, rows), min(DEEP_TILE, columns)
    across, down = -(-columns // wide), -(-rows // high)
    body = (
        pointers
        + f"""
LOCAL {kind} part[{high * wide}][{DEEP_GROUP} + 1];
const LONG column = GROUP % {across} * {wide}, row = GROUP / {across} % {down} * {high};
const LONG matrix = GROUP / {across * down};
a += matrix * {lead[0]}; b += matrix * {lead[1]}; c += matrix * {lead[2]};
ITEMS {{
    {kind} total[{high}][{wide}], left[{high}], right[{wide}];
    for (int i = 0; i < {high}; ++i) for (int j = 0; j < {wide}; ++j) total[i][j] = 0;
    for (LONG d = LOCAL_X; d < {depth}; d += {DEEP_GROUP}) {{
        for (int i = 0; i < {high}; ++i) left[i] = row + i < {rows} ? a[(row + i) * {a0} + d * {a1}] : 0;
        for (int j = 0; j < {wide}; ++j)
            right[j] = column + j < {columns} ? b[d * {b0} + (column + j) * {b1}] : 0;
        for (int i = 0; i < {high}; ++i) for (int j = 0; j < {wide}; ++j) total[i][j] += left[i] * right[j];
    }}
    for (int i = 0; i < {high}; ++i) for (int j = 0; j < {wide}; ++j)
        part[i * {wide} + j][LOCAL_X] = total[i][j];
}}
for (int width = {DEEP_GROUP // 2}; width > 0; width /= 2) {{
    PHASE {{
        for (int n = LOCAL_X; n < {high * wide} * width; n += {DEEP_GROUP})
            part[n / width][n % width] += part[n / width][n % width + width];
    }}
}}
ITEMS {{
    const LONG to_row = row + LOCAL_X / {wide}, to_column = column + LOCAL_X % {wide};
    if (LOCAL_X < {high * wide} && to_row < {rows} && to_column < {columns})
        c[to_row * {c0} + to_column * {c1}] = part[LOCAL_X][0];
}}"""
    )
    matrices = prod(c.shape[:-2])
    return [Launch(body, (a, b, c), Groups(across * down * matrices, (DEEP_GROUP, 1)))]


def _reduce(node: Node, buffers: list[Buffer], width: int = WORK_GROUP) -> list[Launch]:
    x, y = node.inputs[0], node.outputs[0]
    axes = node.attributes["axes"]
    outer = [i for i in range(len(x.shape)) if i not in axes]
    over = [x.shape[i] for i in axes]
    kind = TYPES[buffers[0].dtype]
    combine = {"sum": "{0} + {1}", "max": "LARGER({0}, {1})", "min": "SMALLER({0}, {1})"}[
        node.attributes["op"]
    ]
    at = _offset([x.strides[i] for i in outer])
    start = {"sum": "0", "max": "-INFINITY", "min": "INFINITY"}[node.attributes["op"]]
    if start != "0" and kind not in ("float", "double"):
        start = f"x[{at}]"  # integers have no infinity
    value = f"x[{at} + {_offset([x.strides[i] for i in axes], 'd')}]"
    body = _pointer(0, buffers[0], "x") + _pointer(1, buffers[1], "y")
    if prod(over) < 8 * WORK_GROUP:
        body += _coordinates([x.shape[i] for i in outer], "item")
        body += f"{kind} total = {start};\nfor (LONG n = 0; n < {prod(over)}; ++n) {{\n"
        body += _coordinates(over, "n", "d") + f"total = {combine.format('total', value)};\n}}\n"
        body += f"y[{_offset(y.strides)}] = total;"
        return [_launch(body, (x, y), prod(y.shape))]
    body += _coordinates([x.shape[i] for i in outer], "GROUP")
    body += f"""
LOCAL {kind} part[{width}];
ITEMS {{
{kind} total = {start};
for (LONG n = LOCAL_X; n < {prod(over)}; n += {width}) {{
{_coordinates(over, "n", "d")}total = {combine.format("total", value)};
}}
part[LOCAL_X] = total;
}}
for (int width = {width // 2}; width > 0; width /= 2) {{
    PHASE {{
        if (LOCAL_X < width)
            part[LOCAL_X] = {combine.format("part[LOCAL_X]", "part[LOCAL_X + width]")};
    }}
}}
ITEMS {{
    if (LOCAL_X == 0) y[{_offset(y.strides)}] = part[0];
}}"""
    return [Launch(body, (x, y), Groups(prod(y.shape), (width, 1)))]


def _deep_reduce(node: Node, buffers: list[Buffer]) -> list[Launch]:
    over = prod(node.inputs[0].shape[i] for i in node.attributes["axes"])
    return _reduce(node, buffers, DEEP_GROUP if over >= DEEP else WORK_GROUP)


def _argreduce(node: Node, buffers: list[Buffer]) -> list[Launch]:
    x, y, axis = node.inputs[0], node.outputs[0], node.attributes["axis"]
    outer = [i for i in range(len(x.shape)) if i != axis]
    better = ">" if node.attributes["op"] == "max" else "<"
    kind = TYPES[buffers[0].dtype]
    body = (
        _pointer(0, buffers[0], "x")
        + _pointer(1, buffers[1], "y")
        + _coordinates(y.shape, "item")
        + f"""
const LONG from = {_offset([x.strides[i] for i in outer])};
LONG best = 0;
for (LONG n = 1; n < {x.shape[axis]}; ++n) {{
    const {kind} value = x[from + n * {x.strides[axis]}], record = x[from + best * {x.strides[axis]}];
    if (record == record && (value != value || value {better} record)) best = n;
}}
y[{_offset(y.strides)}] = best;"""
    )
    return [_launch(body, (x, y), prod(y.shape))]


def _looked_up(view: View, axis: int, index: str) -> str:
    """Return the offset of a view's element whose coordinate along the axis is `index`, and c0, c1, ... along the
    others.
    """
    strides = [0 if i == axis else stride for i, stride in enumerate(view.strides)]
    return f"{_offset(strides)} + {index} * {view.strides[axis]}"


def _pick(node: Node, buffers: list[Buffer], index: str) -> list[Launch]:
    (x, i), y = node.inputs, node.outputs[0]
    body = "".join(
        _pointer(k, buffer, name) for k, (buffer, name) in enumerate(zip(buffers, "xiy", strict=True))
    )
    body += _coordinates(y.shape, "item")
    axis = node.attributes["axis"]
    place = f"place_of(arena, i[{index}], {x.shape[axis]})"
    body += f"y[{_offset(y.strides)}] = x[{_looked_up(x, axis, place)}];"
    return [_launch(body, (x, i, y), prod(y.shape))]


def _gather(node: Node, buffers: list[Buffer]) -> list[Launch]:
    return _pick(node, buffers, _offset(node.inputs[1].strides))


def _take(node: Node, buffers: list[Buffer]) -> list[Launch]:
    return _pick(node, buffers, f"c{node.attributes['axis']} * {node.inputs[1].strides[0]}")


def _scatter_add(node: Node, buffers: list[Buffer]) -> list[Launch]:
    (x, i, s), y, axis = node.inputs, node.outputs[0], node.attributes["axis"]
    copy = _pointer(0, buffers[0], "x") + _pointer(1, buffers[3], "y") + _coordinates(y.shape, "item")
    copy += f"y[{_offset(y.strides)}] = x[{_offset(x.strides)}];"
    # One work-item for all additions that may meet in one element, so that no two add to the same place.
    shape = [1 if k == axis else size for k, size in enumerate(i.shape)]
    add = "".join(_pointer(k, b, name) for k, (b, name) in enumerate(zip(buffers[1:], "isy", strict=True)))
    add += _coordinates(shape, "item") + f"for (LONG n = 0; n < {i.shape[axis]}; ++n)\n"
    place = f"place_of(arena, i[{_looked_up(i, axis, 'n')}], {y.shape[axis]})"
    add += f"y[{_looked_up(y, axis, place)}] += s[{_looked_up(s, axis, 'n')}];"
    return [_launch(copy, (x, y), prod(y.shape)), _launch(add, (i, s, y), prod(shape))]


def _im2col(node: Node, buffers: list[Buffer]) -> list[Launch]:
    x, y = node.inputs[0], node.outputs[0]
    (stride_h, stride_w), (padding_h, padding_w) = node.attributes["stride"], node.attributes["padding"]
    body = (
        _pointer(0, buffers[0], "x")
        + _pointer(1, buffers[1], "y")
        + _coordinates(y.shape, "item")
        + f"""
const LONG h = c1 * {stride_h} + c4 - {padding_h}, w = c2 * {stride_w} + c5 - {padding_w};
const int inside = h >= 0 && h < {x.shape[2]} && w >= 0 && w < {x.shape[3]};
y[{_offset(y.strides)}] = inside ? x[c0 * {x.strides[0]} + c3 * {x.strides[1]}
                                     + h * {x.strides[2]} + w * {x.strides[3]}] : 0;"""
    )
    return [_launch(body, (x, y), prod(y.shape))]


def _col2im(node: Node, buffers: list[Buffer]) -> list[Launch]:
    x, y = node.inputs[0], node.outputs[0]
    (stride_h, stride_w), (padding_h, padding_w) = node.attributes["stride"], node.attributes["padding"]
    _, out_height, out_width, _, kernel_h, kernel_w = x.shape
    s = x.strides
    body = (
        _pointer(0, buffers[0], "x")
        + _pointer(1, buffers[1], "y")
        + _coordinates(y.shape, "item")
        + f"""
{TYPES[buffers[1].dtype]} total = 0;
for (LONG k = 0; k < {kernel_h}; ++k)
    for (LONG l = 0; l < {kernel_w}; ++l) {{
        const LONG h = c2 + {padding_h} - k, w = c3 + {padding_w} - l;
        const LONG i = h / {stride_h}, j = w / {stride_w};
        if (h < 0 || w < 0 || h % {stride_h} || w % {stride_w} || i >= {out_height} || j >= {out_width}) continue;
        total += x[c0 * {s[0]} + i * {s[1]} + j * {s[2]} + c1 * {s[3]} + k * {s[4]} + l * {s[5]}];
    }}
y[{_offset(y.strides)}] = total;"""
    )
    return [_launch(body, (x, y), prod(y.shape))]


_MAKERS: dict[str, Callable[[Node, list[Buffer]], list[Launch]]] = {
    "elementwise": _elementwise,
    "matmul": _matmul,
    "reduce": _reduce,
    "argreduce": _argreduce,
    "gather": _gather,
    "take": _take,
    "scatter_add": _scatter_add,
    "im2col": _im2col,
    "col2im": _col2im,
}
KINDS = tuple(_MAKERS)
_DEEP: dict[str, Callable[[Node, list[Buffer]], list[Launch]]] = {
    "matmul": _deep_matmul,
    "reduce": _deep_reduce,
}
"""Those of a GPU."""


def byte_offset(view: View, buffers: Sequence[Buffer], offsets_bytes: Sequence[int]) -> int:
    """Return the byte in the arena (the buffer that holds everything) at which a view's first element begins.

    Args:
        offsets_bytes: for each buffer its first byte in the arena.
    """
    return offsets_bytes[view.buffer] + view.offset * ITEM_BYTES[buffers[view.buffer].dtype]


def named(wanted: Iterable[Launch]) -> tuple[dict[str, str], str]:
    """Return the kernels of some launches, each of which is compiled once.

    Returns:
        The name of each kernel by its `Launch.source("kernel")`, and the source of all.
    """
    names: dict[str, str] = {}
    sources = [HELPERS]
    for launch in wanted:
        key = launch.source("kernel")
        if key not in names:
            names[key] = f"{launch.kind}_{len(names)}"
            sources.append(launch.source(names[key]))
    return names, "\n".join(sources)
