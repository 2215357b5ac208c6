"""pydantic-ai: an agent with the server as a toolset."""

import asyncio

from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from where import COMMAND, PROMPT, URL, show


async def main() -> None:
    toolset = MCPToolset(URL or StdioTransport(command=COMMAND[0], args=COMMAND[1:]))
    agent = Agent("openai-chat:gpt-4o", toolsets=[toolset])
    async with agent:
        show(answer=(await agent.run(PROMPT)).output)


asyncio.run(main())
