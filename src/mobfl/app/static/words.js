// The server's sentences in the words of the page: its labels where a TOML file has keys.

/** From a sentence to the same one with labels; `labels` are by dotted key. */
export function wordsOf(labels) {
  const short = new Map(Object.entries(labels).map(([key, label]) => [key.split(".")[1], label]));
  const withTable = /\b[a-z]+\.[a-z_]+[a-z]\b/g;
  const alone = /\b[a-z]+(?:_[a-z]+)+\b/g; // of two words: one alone could be any
  const ofClass = /\bfleet\.(\d+)\.([a-z_]+)/g;
  return (line) =>
    line
      .replace(ofClass, (_, place, key) => `${labels[`compute.${key}`] ?? key} of class ${Number(place) + 1}`)
      .replace(withTable, (key) => labels[key] ?? key)
      .replace(alone, (key) => short.get(key) ?? key)
      .replace("shares of fleet", "shares of the classes");
}
