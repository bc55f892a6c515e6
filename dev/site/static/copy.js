// A button that copies a block of code, but not output: of a session only the commands, without their prompts.
for (const block of document.querySelectorAll("div:not(.highlight-text) > div.highlight > pre")) {
  const button = document.createElement("button");
  button.className = "copy";
  button.type = "button";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    const lines = block.textContent.trimEnd().split("\n");
    const commands = lines.filter((line) => line.startsWith("$ ")).map((line) => line.slice(2));
    const text = (commands.length ? commands : lines).join("\n");
    try {
      await navigator.clipboard.writeText(text);
    } catch { // a page on disk or without https
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  block.parentElement.append(button);
}
