#!/usr/bin/env python3
"""A TCP balancer for three coordinators on loopback, for the example beside it.

    balancer.py LISTEN BACKEND...

LISTEN and BACKEND are ports of 127.0.0.1; a BACKEND may be PORT/HTTP, where HTTP is the port that
answers /readyz. New connections go round the backends that are ready; one that cannot be
reached is passed over, whatever the last check said of it. Standard library only.
"""

import asyncio
import itertools
import sys

HOST = "127.0.0.1"
CHECK_EVERY = 0.2
CHECK_TIMEOUT = 1.0
CONNECT_TIMEOUT = 1.0
CHUNK_BYTES = 64 * 1024


class Backend:
    def __init__(self, text):
        port, _, http = text.partition("/")
        self.port = int(port)
        self.http = int(http) if http else None
        self.ready = False

    async def open(self):
        return await asyncio.wait_for(asyncio.open_connection(HOST, self.port), CONNECT_TIMEOUT)

    async def is_ready(self):
        """Whether /readyz says so, or, without it, whether the port takes a connection."""
        reader, writer = await asyncio.open_connection(HOST, self.http or self.port)
        try:
            if self.http is None:
                return True
            writer.write(b"GET /readyz HTTP/1.1\r\nHost: balancer\r\nConnection: close\r\n\r\n")
            status = (await reader.readline()).split()
            return len(status) > 1 and status[1] == b"200"
        finally:
            writer.close()

    async def watch(self):
        while True:
            try:
                ready = await asyncio.wait_for(self.is_ready(), CHECK_TIMEOUT)
            except (OSError, asyncio.TimeoutError):
                ready = False
            if ready != self.ready:
                print(f"balancer: {self.port} is {'ready' if ready else 'out'}", flush=True)
            self.ready = ready
            await asyncio.sleep(CHECK_EVERY)


async def pump(reader, writer):
    """Copies one direction until its end."""
    try:
        while data := await reader.read(CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


def serve_from(backends):
    turns = itertools.count()

    async def serve(reader, writer):
        turn = next(turns)
        order = [backends[(turn + i) % len(backends)] for i in range(len(backends))]
        # Ready ones first. If there is none, any that answers will do: it can say itself what is wrong.
        for backend in sorted(order, key=lambda b: not b.ready):
            try:
                their_reader, their_writer = await backend.open()
            except (OSError, asyncio.TimeoutError):
                continue
            await asyncio.gather(pump(reader, their_writer), pump(their_reader, writer))
            return
        writer.close()

    return serve


async def main(listen, backends):
    server = await asyncio.start_server(serve_from(backends), HOST, listen)
    print(f"balancer: listening on {HOST}:{listen}", flush=True)
    async with server:
        await asyncio.gather(*(backend.watch() for backend in backends))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    try:
        asyncio.run(main(int(sys.argv[1]), [Backend(text) for text in sys.argv[2:]]))
    except KeyboardInterrupt:
        pass
