"""Chats a second of a prompted judge, against a plain asyncio loop with the same client.

    python benchmarks/server_throughput.py [CHATS]

First a stub whose answers take 0.2 s and one in twenty 5 s, 16 at once; then an instant stub.
"""

import asyncio
import json
import re
import sys
import time
from multiprocessing import Process, Queue

from medal_judges import Dialogue, Judge, Turn

AT_ONCE = 16


async def answer(reader, writer, slow):
    """Serves one connection."""
    body = {
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "Score: 4"}}
        ]
    }
    body["choices"][0]["finish_reason"] = "stop"
    body |= {"id": "x", "object": "chat.completion", "created": 0, "model": "stub"}
    body["usage"] = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
    data = json.dumps(body).encode()
    fields = f"Content-Type: application/json\r\nContent-Length: {len(data)}"
    head = f"HTTP/1.1 200 OK\r\n{fields}\r\n\r\n"
    while line := await reader.readline():
        length = 0
        while (line := await reader.readline()).strip():
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        request = await reader.readexactly(length)
        if slow:
            number = int(re.findall(rb"Hello (\d+)", request)[0])
            await asyncio.sleep(5 if number % 20 == 0 else 0.2)
        writer.write(head.encode() + data)


def serve(slow, port):
    async def run():
        handler = lambda reader, writer: answer(reader, writer, slow)  # noqa: E731
        server = await asyncio.start_server(handler, "127.0.0.1", 0)
        port.put(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


async def plain_loop(url, prompts):
    from openai import AsyncOpenAI

    slots = asyncio.Semaphore(AT_ONCE)

    async def ask(prompt):
        async with slots:
            messages = [{"role": "user", "content": prompt}]
            await client.chat.completions.create(model="stub", messages=messages)

    async with AsyncOpenAI(api_key="none", base_url=url) as client:
        await asyncio.gather(*map(ask, prompts))


def measure(slow, count):
    port = Queue()
    server = Process(target=serve, args=(slow, port), daemon=True)
    server.start()
    url = f"http://127.0.0.1:{port.get()}/v1"
    chats = []
    for number in range(count):
        turns = (Turn("user", f"Hello {number}"), Turn("assistant", "Hello!"))
        chats.append(Dialogue(str(number), turns, lang="en"))
    llm = {
        "backend": "openai",
        "model": "stub",
        "base_url": url,
        "max_in_flight": AT_ONCE,
    }
    judge = Judge.from_pretrained("meep", llm={**llm, "cache": False}, answer="number")
    list(judge.score(chats[1:2]))  # imports
    start = time.perf_counter()
    judgements = list(judge.score(chats))
    own = time.perf_counter() - start
    assert [judgement.id for judgement in judgements] == [chat.id for chat in chats]
    assert all(judgement.scored for judgement in judgements), judgements[0].failure
    start = time.perf_counter()
    asyncio.run(plain_loop(url, [f"Hello {number}" for number in range(count)]))
    loop = time.perf_counter() - start
    server.terminate()
    name = "0.2 s, one in twenty 5 s" if slow else "at once"
    print(
        f"{count} chats, answers {name}: judge {own:.1f} s, loop {loop:.1f} s, {loop / own:.2f}"
    )


if __name__ == "__main__":
    measure(True, 320)
    if sys.argv[1:] != ["0"]:
        measure(False, int((sys.argv[1:] or ["2000"])[0]))
