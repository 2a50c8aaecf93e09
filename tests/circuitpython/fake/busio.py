"""`busio`: the UART, with a wire whose other end a test holds."""

from . import digitalio


class UART:
    class Parity:
        ODD = object()
        EVEN = object()

    def __init__(
        self,
        tx=None,
        rx=None,
        *,
        rts=None,
        cts=None,
        rs485_dir=None,
        rs485_invert=False,
        baudrate=9600,
        bits=8,
        parity=None,
        stop=1,
        timeout=1,
        receiver_buffer_size=64,
    ):
        self._pins = [pin for pin in (tx, rx, rts, cts, rs485_dir) if pin is not None]
        if tx is None and rx is None:
            raise ValueError("tx and rx cannot both be None")
        if not 5 <= bits <= 9:
            raise ValueError("bits must be 5-9")
        if stop not in (1, 2):
            raise ValueError("stop must be 1-2")
        if not 1 <= receiver_buffer_size <= 0xFFFF:
            raise ValueError("receiver_buffer_size must be 1-65535")
        for pin in self._pins:
            digitalio.claim(pin)
        self._baudrate = baudrate
        self._tx = tx is not None
        self.timeout = timeout
        self._received = bytearray()
        self._sent = []  # (byte, rate) in the order in which they left

    def deinit(self):
        for pin in self._pins or ():
            digitalio.release(pin)
        self._pins = None

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.deinit()

    def _check(self):
        if self._pins is None:
            raise ValueError("Object has been deinitialized and can no longer be used.")

    def read(self, nbytes=None):
        self._check()
        n = len(self._received) if nbytes is None else nbytes
        data = bytes(self._received[:n])
        del self._received[:n]
        return data or None

    def readinto(self, buf):
        data = self.read(len(buf))
        if data is None:
            return None
        memoryview(buf)[: len(data)] = data
        return len(data)

    def readline(self):
        return self.read(self._received.find(b"\n") + 1 or None)

    def write(self, buf):
        self._check()
        if not self._tx:
            raise ValueError("No tx pin")
        if isinstance(buf, str):
            raise TypeError("object with buffer protocol required")
        data = bytes(buf)
        self._sent += [(byte, self._baudrate) for byte in data]
        return len(data)

    @property
    def baudrate(self):
        self._check()
        return self._baudrate

    @baudrate.setter
    def baudrate(self, baudrate):
        self._check()
        if not isinstance(baudrate, int):
            raise TypeError("can't convert to int")
        self._baudrate = baudrate

    @property
    def in_waiting(self):
        self._check()
        return len(self._received)

    @property
    def timeout(self):
        self._check()
        return self._timeout

    @timeout.setter
    def timeout(self, timeout):
        self._check()
        if not 0 <= timeout <= 100:
            raise ValueError("timeout must be 0-100")
        self._timeout = timeout

    def reset_input_buffer(self):
        self._check()
        self._received.clear()
