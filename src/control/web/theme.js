// A classic script, so that it runs before the first paint: the page never flashes in the other theme.
(() => {
  let theme = null;
  try {
    theme = localStorage.getItem("vik.theme");
  } catch {
    // Storage may be refused; the system's theme holds then.
  }
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
})();
