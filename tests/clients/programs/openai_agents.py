"""openai-agents: an agent with the server's tools, over the provider's responses API."""

import asyncio

from agents import Agent, Runner, set_tracing_disabled
from agents.mcp import MCPServerStdio, MCPServerStreamableHttp
from where import COMMAND, PROMPT, URL, show


async def main() -> None:
    set_tracing_disabled(True)
    if URL:
        server = MCPServerStreamableHttp(params={"url": URL}, client_session_timeout_seconds=60)
    else:
        server = MCPServerStdio(params={"command": COMMAND[0], "args": COMMAND[1:]}, client_session_timeout_seconds=60)
    async with server:
        agent = Agent(name="it", instructions="Use the tools.", mcp_servers=[server], model="gpt-4o")
        show(answer=(await Runner.run(agent, PROMPT)).final_output)


asyncio.run(main())
