"""llama-index: a function-calling agent with the server's tools."""

import asyncio

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.openai import OpenAI
from llama_index.tools.mcp import BasicMCPClient, McpToolSpec
from where import COMMAND, MODEL_URL, PROMPT, URL, show


async def main() -> None:
    client = BasicMCPClient(URL) if URL else BasicMCPClient(COMMAND[0], args=COMMAND[1:])
    tools = await McpToolSpec(client=client).to_tool_list_async()
    model = OpenAI(model="gpt-4o", api_base=MODEL_URL, api_key="none")
    agent = FunctionAgent(tools=tools, llm=model, streaming=False)
    show(answer=str(await agent.run(PROMPT)))


asyncio.run(main())
