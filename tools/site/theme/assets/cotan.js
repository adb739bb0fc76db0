// Says on the pages of a version that it is not the newest release.
const folder = new URL("..", document.currentScript.src);

fetch(new URL("../versions.json", folder))
  .then((answer) => answer.json())
  .then((versions) => {
    const name = folder.pathname.split("/").at(-2);
    const newest = versions.find((v) => v.aliases.includes("latest"));
    const note = document.querySelector(".other-version");
    if (note && newest) note.hidden = newest.version === name;
  });
