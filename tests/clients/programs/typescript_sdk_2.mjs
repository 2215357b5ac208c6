// The TypeScript SDK, second line: list, a bad call, a good one.
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { bad, command, good, url } from "./where.mjs";

const client = new Client({ name: "someone", version: "1" });
await client.connect(
  url
    ? new StreamableHTTPClientTransport(new URL(url))
    : new StdioClientTransport({ command: command[0], args: command.slice(1) }),
);
const names = (await client.listTools()).tools.map((tool) => tool.name);
const refused = await client.callTool({ name: "memory.write", arguments: bad });
const written = await client.callTool({ name: "memory.write", arguments: good });
await client.close();
console.log(
  JSON.stringify({ names, bad: refused.content[0].text, is_error: refused.isError, good: written.content[0].text }),
);
