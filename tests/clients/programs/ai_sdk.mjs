// The AI SDK: a text generated with the server's tools.
import { createMCPClient } from "@ai-sdk/mcp";
import { Experimental_StdioMCPTransport as StdioTransport } from "@ai-sdk/mcp/mcp-stdio";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, stepCountIs } from "ai";
import { command, prompt, url } from "./where.mjs";

const transport = url ? { type: "http", url } : new StdioTransport({ command: command[0], args: command.slice(1) });
const client = await createMCPClient({ transport });
const openai = createOpenAI({ apiKey: "none", baseURL: process.env.OPENAI_BASE_URL });
const { text } = await generateText({
  model: openai("gpt-4o"),
  tools: await client.tools(),
  stopWhen: stepCountIs(5),
  prompt,
});
await client.close();
console.log(JSON.stringify({ answer: text }));
