package main

import (
	"encoding/xml"
	"flag"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var rewrite = flag.Bool("rewrite", false, "write the pictures again; look at them")

const (
	committed  = "../../docs/pictures"
	maxPicture = 30 << 10 // bytes
)

// TestPicturesAreCommitted compares the committed pictures with those that the program draws.
func TestPicturesAreCommitted(t *testing.T) {
	if *rewrite {
		require.NoError(t, write(committed))
	}
	drawn, err := pictures()
	require.NoError(t, err)
	found, err := filepath.Glob(filepath.Join(committed, "*.svg"))
	require.NoError(t, err)
	var names []string
	for _, path := range found {
		names = append(names, filepath.Base(path))
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(drawn)), names, "run go run ./tools/pictures, and delete pictures that it no longer draws")
	for name, want := range drawn {
		got, err := os.ReadFile(filepath.Join(committed, name))
		require.NoError(t, err)
		require.Equal(t, want, string(got), "%s differs: run go run ./tools/pictures, and look at it", name)
		require.Less(t, len(got), maxPicture, name)
	}
}

// TestPicturesAreLegible checks that pictures are well formed, have a title for screen readers and colors for dark pages.
func TestPicturesAreLegible(t *testing.T) {
	drawn, err := pictures()
	require.NoError(t, err)
	for name, text := range drawn {
		decoder := xml.NewDecoder(strings.NewReader(text))
		for {
			if _, err = decoder.Token(); err != nil {
				break
			}
		}
		require.ErrorIs(t, err, io.EOF, name)
		require.Contains(t, text, "<title>", name)
		require.Contains(t, text, "prefers-color-scheme:dark", name)
	}
}

// TestPicturesShowRules checks what is drawn against rules that are written down elsewhere.
func TestPicturesShowRules(t *testing.T) {
	of, err := windowOfRows(0)
	require.NoError(t, err)
	other, err := windowOfRows(1)
	require.NoError(t, err)
	require.NotEqual(t, of, other, "parts begin elsewhere in another epoch")
	for _, windows := range [][]int{of, other} {
		rows := map[int]int{}
		for part := range runParts {
			inPart := map[int]bool{}
			for _, window := range windows[part*rowsPerDay : (part+1)*rowsPerDay] {
				rows[window]++
				inPart[window] = true
			}
			require.Len(t, inPart, runDays*rowsPerDay/windowRows, "every part has a block of each window")
		}
		for window, n := range rows {
			require.Equal(t, windowRows, n, "window %d", window)
		}
	}
	rows, err := rowsOf(trainingBuckets, itemsPerRequest)
	require.NoError(t, err)
	sum := int64(0)
	for _, n := range rows {
		sum += n
	}
	require.EqualValues(t, requests*itemsPerRequest, sum)
}
