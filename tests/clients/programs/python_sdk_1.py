"""The Python SDK, first line: list, a bad call, a good one."""

import asyncio
from contextlib import AsyncExitStack

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client
from where import BAD, COMMAND, GOOD, URL, show


async def main() -> None:
    async with AsyncExitStack() as stack:
        stdio = StdioServerParameters(command=COMMAND[0], args=COMMAND[1:]) if COMMAND else None
        connection = stdio_client(stdio) if stdio else streamablehttp_client(URL)
        reads, writes, *_ = await stack.enter_async_context(connection)
        client = await stack.enter_async_context(ClientSession(reads, writes))
        await client.initialize()
        names = [tool.name for tool in (await client.list_tools()).tools]
        bad = await client.call_tool("memory_write", BAD)
        good = await client.call_tool("memory_write", GOOD)
        show(names=names, bad=bad.content[0].text, is_error=bad.isError, good=good.content[0].text)


asyncio.run(main())
