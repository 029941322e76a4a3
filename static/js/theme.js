// Runs before the page is drawn, so that a chosen theme never flashes. The key is Django admin's own:
// one choice holds for the pages and for the administration.
document.documentElement.dataset.theme = localStorage.getItem("theme") || "auto";
