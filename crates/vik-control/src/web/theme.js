// A classic script, because it must set the theme before the first paint.
(() => {
  let theme = null;
  try {
    theme = localStorage.getItem("vik.theme");
  } catch {
    // Without storage, the theme of the system applies.
  }
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
})();
