package svg

// Chart is the class of charts. The selectors of Style are below it.
const Chart = "chart"

// Style is the CSS of charts in pages, for light and dark pages. Texts, axes and dashes have the color of the page's text. The
// classes are:
//
//	a, b      the first and the second data; b is an outline with a light fill
//	o         values outside of the limits: a dashed outline
//	l, g      axis, grid
//	m         marked points
//	p0 to p3  lines, which differ in their dashes
//	t0 to t5  parts of a stack, from dark to light
//	h1 to h4  shades of a grid, with a
//	x         crosses of a grid
//	s, k      small and strong text
//	c, e      text that is centered, or ends at its place
const Style = `.chart{max-width:100%;height:auto}
.chart text{font:12px system-ui,sans-serif;fill:currentColor}.chart .s{font-size:11px;opacity:.75}.chart .k{font-weight:600}
.chart .c{text-anchor:middle}.chart .e{text-anchor:end}
.chart .a{fill:#0969da}.chart .b{fill:#bc4c00;fill-opacity:.25;stroke:#bc4c00}
.chart .o{fill:none;stroke:currentColor;stroke-width:1.2;stroke-dasharray:3 2;opacity:.8}
.chart .l{stroke:currentColor;opacity:.6}.chart .g{stroke:currentColor;opacity:.18}.chart .m{fill:none;stroke:#cf222e;stroke-width:2}
.chart .p0,.chart .p1,.chart .p2,.chart .p3{fill:none;stroke:#0969da;stroke-width:1.6}
.chart .p1{stroke:#bc4c00;stroke-dasharray:6 3}.chart .p2{stroke:#1a7f37;stroke-dasharray:2 2}.chart .p3{stroke:#8250df;stroke-dasharray:8 3 2 3}
.chart .t0{fill:#bc4c00}.chart .t1{fill:#0969da}.chart .t2{fill:#8250df}.chart .t3{fill:#57a7f5}.chart .t4{fill:#d4a72c}.chart .t5{fill:currentColor;opacity:.12}
.chart .h1{fill-opacity:.25}.chart .h2{fill-opacity:.5}.chart .h3{fill-opacity:.75}.chart .x{fill:none;stroke:#cf222e;stroke-width:1.2}
@media (prefers-color-scheme:dark){.chart .a{fill:#4493f8}.chart .x{stroke:#f85149}.chart .b{fill:#f0883e;fill-opacity:.3;stroke:#f0883e}.chart .m{stroke:#f85149}
.chart .p0{stroke:#4493f8}.chart .p1{stroke:#f0883e}.chart .p2{stroke:#3fb950}.chart .p3{stroke:#ab7df8}}
`

// FileStyle is the CSS of charts in files of their own.
const FileStyle = Style + `.chart{color:#1f2328}
@media (prefers-color-scheme:dark){.chart{color:#e6edf3}}
`
