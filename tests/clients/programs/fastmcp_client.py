"""fastmcp's client: list, a bad call, a good one."""

import asyncio

from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from where import BAD, COMMAND, GOOD, URL, show


async def main() -> None:
    async with Client(URL or StdioTransport(command=COMMAND[0], args=COMMAND[1:])) as client:
        names = [tool.name for tool in await client.list_tools()]
        bad = await client.call_tool("memory_write", BAD, raise_on_error=False)
        good = await client.call_tool("memory_write", GOOD)
        show(names=names, bad=bad.content[0].text, is_error=bad.is_error, good=good.content[0].text)


asyncio.run(main())
