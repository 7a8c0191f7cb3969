// Package uplot has the files of uPlot 1.6.32, a JavaScript library that draws time series. They are the unchanged files
// dist/uPlot.iife.min.js and dist/uPlot.min.css of the npm package uplot of that version, under the MIT license of the file
// LICENSE. A test compares their digests.
package uplot

import _ "embed" // the files

// Script defines the function uPlot.
//
//go:embed uPlot.iife.min.js
var Script []byte

// Style is the style sheet of the charts.
//
//go:embed uPlot.min.css
var Style []byte
