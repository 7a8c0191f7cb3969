// Package svg draws charts and pictures as SVG.
//
// Each chart is a value that has its data, and draws itself on a [Canvas]. The same data always give the same bytes.
//
// The pictures need no script, font or network. Each has a title and, if it is a chart, a description, which screen readers
// read. Shapes differ in form, place or pattern, and not only in color. Colors are classes: [Style] defines them for light and
// dark pages. A page that contains charts has this style once; a file has [FileStyle] inside the picture ([Canvas.File]).
//
// Texts come from tables, and may be hostile. Only the Canvas writes texts: it cuts them, replaces characters that do not
// print, and escapes them, so that the result is well-formed XML and is safe inside HTML.
package svg
