package main

import (
	"net/http"
	"net/http/cookiejar"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Pages of a config file show datasets that were added to the file, and say that a broken file is not in use.
//
// spec: ui-38
func TestPagesOfAChangedConfigFile(t *testing.T) {
	l := newWrittenLake(t, `
  clicks:
    training: {table: features.rows}
    key: [id]
    staging: []
`, map[string]string{"rows": rowsOf("label", 0, 20)})
	link := startUI(t, "--config", l.config)
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	browser := &http.Client{Jar: jar}
	status, _ := browse(t, browser, link, func(*http.Request) {})
	require.Equal(t, http.StatusOK, status)
	base := link[:strings.Index(link[len("http://"):], "/")+len("http://")]
	shown := func(path, text string) bool {
		_, page := browse(t, browser, base+path, func(*http.Request) {})
		return strings.Contains(page, text)
	}
	require.False(t, shown("/datasets", "tomorrow"))
	before, err := os.ReadFile(l.config)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(l.config, append(before, "  tomorrow: {training: {table: features.rows}, key: [id]}\n"...), 0o600))
	require.Eventually(t, func() bool { return shown("/datasets", "tomorrow") }, time.Minute, 50*time.Millisecond)
	require.False(t, shown("/", "does not use the config file"))

	require.NoError(t, os.WriteFile(l.config, append(before, "  tomorrow: {training: {tables: x}}\n"...), 0o600))
	require.Eventually(t, func() bool { return shown("/", "The server does not use the config file on disk. It was refused at ") }, time.Minute, 50*time.Millisecond)
	require.True(t, shown("/datasets", "tomorrow"), "the datasets before stay")
}
