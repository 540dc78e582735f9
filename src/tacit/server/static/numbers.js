// Numbers in words, as `pages/words.py` writes them on the server.

/**
 * A number with so many leading digits.
 * @param {number} value
 * @param {number} [digits]
 */
export function significant(value, digits = 2) {
  if (!Number.isFinite(value)) return "not known";
  if (value === 0) return "0";
  const places = digits - 1 - Math.floor(Math.log10(Math.abs(value)));
  const scale = 10 ** Math.abs(places);
  const rounded = places >= 0 ? Math.round(value * scale) / scale : Math.round(value / scale) * scale;
  return rounded.toLocaleString("en-GB", { maximumFractionDigits: Math.max(0, Math.min(places, 15)) });
}

/** @param {number} epsilon */
export function chance(epsilon) {
  return `${Number((100 / (1 + Math.exp(-epsilon))).toPrecision(3))} in 100`;
}
