// Package static holds the files that pages need, named by their content, so
// that whoever has fetched one may keep it for ever: the style sheet, the script
// that refreshes numbers, the icon, and the widget for the pages of members.
package static
