"""The Python SDK, second line: list, a bad call, a good one."""

import asyncio

from mcp import StdioServerParameters
from mcp.client import Client
from where import BAD, COMMAND, GOOD, URL, show


async def main() -> None:
    async with Client(URL or StdioServerParameters(command=COMMAND[0], args=COMMAND[1:])) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        bad = await client.call_tool("memory_write", BAD)
        good = await client.call_tool("memory_write", GOOD)
        show(names=names, bad=bad.content[0].text, is_error=bad.is_error, good=good.content[0].text)


asyncio.run(main())
