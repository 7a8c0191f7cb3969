// Package tags keeps pinned snapshots from expiring, by tags in the tables' metadata.
package tags
