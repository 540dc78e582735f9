// Draws the charts of a page when it is there, when a part of it was replaced, and when the window is another size.
import { drawAll } from "./charts.js";

let waiting = 0;
const again = () => {
  cancelAnimationFrame(waiting);
  waiting = requestAnimationFrame(drawAll);
};
drawAll();
document.addEventListener("htmx:afterSettle", again);
window.addEventListener("resize", again);
