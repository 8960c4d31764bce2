"""AXI4-Lite and AXI4-Stream as Amaranth streams: a stream for each channel.

An AXI channel obeys the rules of Amaranth's streams: a transfer takes place in a cycle with valid and ready, and a
payload that is offered stays until it is taken. Sources: AMBA AXI and ACE Protocol Specification (IHI 0022), AMBA
AXI-Stream Protocol Specification (IHI 0051).
"""

from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.host.register_map import WORD_BITS, WORD_BYTES


class AxiLite(wiring.Signature):
    """The five channels of an AXI4-Lite manager with 32 data bits. A subordinate has it as `In(AxiLite(...))`.

    There are no protection bits (AWPROT, ARPROT): the registers are the same for all.

    Members:
        aw (out), ar (out): streams of `address`. w (out): stream of `data` and `strobe`.
        b (in): stream of `response`. r (in): stream of `data` and `response`.

    Args:
        address_bits: bits of a byte address.
    """

    def __init__(self, address_bits: int) -> None:
        self.address_bits = address_bits
        address = data.StructLayout({"address": address_bits})
        written = data.StructLayout({"data": WORD_BITS, "strobe": WORD_BYTES})
        read = data.StructLayout({"data": WORD_BITS, "response": 2})
        super().__init__(
            {
                "aw": Out(stream.Signature(address)),
                "w": Out(stream.Signature(written)),
                "b": In(stream.Signature(data.StructLayout({"response": 2}))),
                "ar": Out(stream.Signature(address)),
                "r": In(stream.Signature(read)),
            }
        )


def axi_stream(width: int) -> stream.Signature:
    """Return the signature of an AXI4-Stream: a stream of `data` and `last`, which marks the end of a packet.

    Args:
        width: bits of `data` (TDATA), a multiple of 8.

    Raises:
        ValueError: the width is not a multiple of 8.
    """
    if width < 8 or width % 8:
        raise ValueError(f"width: found {width}; allowed: a multiple of 8")
    return stream.Signature(data.StructLayout({"data": width, "last": 1}))
