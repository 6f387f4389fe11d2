// The address of the page.

export const address = {
  /** The path and the query of the page that is shown. */
  shown: "",
  /** Changes the address of the page that is shown. */
  replace(href) {
    history.replaceState(null, "", href);
    address.shown = location.pathname + location.search;
  },
};
