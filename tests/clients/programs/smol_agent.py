"""smolagents: an agent that writes code, in which the server's tools are functions.

Not its ToolCallingAgent: that takes every argument of a tool of MCP for required.
"""

from mcp import StdioServerParameters
from smolagents import CodeAgent, MCPClient, OpenAIModel
from where import COMMAND, MODEL_URL, PROMPT, URL, show

HTTP = {"url": URL, "transport": "streamable-http"}
server = HTTP if URL else StdioServerParameters(command=COMMAND[0], args=COMMAND[1:])
with MCPClient(server, structured_output=False) as tools:
    model = OpenAIModel("gpt-4o", api_base=MODEL_URL, api_key="none")
    show(answer=CodeAgent(tools=tools, model=model, max_steps=5, verbosity_level=0).run(PROMPT))
