// What every program is told: how to reach the server (a command, or a URL), the model, and what to call.
export const command = JSON.parse(process.env.SERVER_COMMAND ?? "[]");
export const url = process.env.SERVER_URL ?? "";
export const [bad, good] = JSON.parse(process.env.CALLS);
export const prompt = "Remember the plan.";
