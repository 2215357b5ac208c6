"""LangChain: an agent with the tools that langchain-mcp-adapters makes of the server's."""

import asyncio

from langchain.agents import create_agent
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_openai import ChatOpenAI
from where import COMMAND, PROMPT, URL, show


async def main() -> None:
    stdio = {"transport": "stdio", "command": COMMAND[0], "args": COMMAND[1:]} if COMMAND else {}
    server = {"transport": "streamable_http", "url": URL} if URL else stdio
    tools = await MultiServerMCPClient({"tallystick": server}).get_tools()
    agent = create_agent(ChatOpenAI(model="gpt-4o"), tools)
    found = await agent.ainvoke({"messages": [{"role": "user", "content": PROMPT}]})
    show(answer=found["messages"][-1].content)


asyncio.run(main())
