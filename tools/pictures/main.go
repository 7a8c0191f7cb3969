// Command pictures draws the pictures of the documentation as SVG: how buckets match, how a window is made of many
// places, and how rows become batches. What they show is computed by the packages that plan queries, for the tables
// of docs/quickstart.md, so that a picture cannot show another rule than the one that is applied.
//
//	go run ./tools/pictures [-folder docs/pictures]
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	folder := flag.String("folder", "docs/pictures", "where the pictures are written")
	flag.Parse()
	if err := write(*folder); err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

// write draws all pictures into a folder.
func write(folder string) error {
	drawn, err := pictures()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return fmt.Errorf("make the folder of the pictures: %w", err)
	}
	for name, text := range drawn {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			return fmt.Errorf("write picture %s: %w", name, err)
		}
	}
	return nil
}

// pictures returns the text of each picture by its file's name.
func pictures() (map[string]string, error) {
	out := map[string]string{}
	for name, draw := range map[string]func() (string, error){
		"buckets.svg": buckets,
		"windows.svg": windows,
		"batches.svg": batches,
	} {
		text, err := draw()
		if err != nil {
			return nil, fmt.Errorf("draw picture %s: %w", name, err)
		}
		out[name] = text
	}
	return out, nil
}
