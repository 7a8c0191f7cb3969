package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// startUI runs penstock ui, and returns what it prints first. The command ends with the test.
func startUI(t *testing.T, args ...string) string {
	t.Helper()
	link, _ := startUIWith(t, nil, args...)
	return link
}

// startUIWith is startUI with an environment. It also returns a function that ends the command.
func startUIWith(t *testing.T, env func(string) (string, bool), args ...string) (link string, end func()) {
	t.Helper()
	read, write := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int)
	p := process{terminal: terminal{stdin: strings.NewReader(""), stdout: write, stderr: io.Discard}, environment: environment{clock: time.Now, env: env}}
	go func() {
		code := p.run(ctx, append([]string{"ui"}, args...))
		_ = write.Close() // so that the test does not wait for a link
		ended <- code
	}()
	end = sync.OnceFunc(func() {
		cancel()
		require.Equal(t, exitOK, <-ended)
	})
	t.Cleanup(end)
	line, err := bufio.NewReader(read).ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(line), end
}

// browse returns the answer to a request.
func browse(t *testing.T, with *http.Client, url string, change func(*http.Request)) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	change(r)
	answer, err := with.Do(r)
	require.NoError(t, err)
	defer answer.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, string(body)
}

func unchanged(*http.Request) {}

// spec: ui-6, ui-7, ui-9
func TestPagesOfAConfigFile(t *testing.T) {
	link := startUI(t, "--config", readLake(t).config)
	base, _, found := strings.Cut(link, "/enter?key=")
	require.True(t, found, link)
	status, _ := browse(t, &http.Client{}, base, unchanged)
	require.Equal(t, http.StatusUnauthorized, status)

	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	browser := &http.Client{Jar: jar}
	status, body := browse(t, browser, link, unchanged)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "No streams run.")
	for path, text := range map[string]string{
		"/datasets": "ml.impresions", "/datasets/home": "features.history", "/tables": "ml.large", "/tables/features.history": "append", "/memory": "In use",
		"/datasets/nothing": "there is no dataset",
	} {
		_, body = browse(t, browser, base+path, unchanged)
		require.Contains(t, body, text, path)
	}

	status, _ = browse(t, browser, base+"/", func(r *http.Request) { r.Host = "attacker.example:80" })
	require.Equal(t, http.StatusMisdirectedRequest, status)
	status, _ = browse(t, browser, base+"/", func(r *http.Request) {
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		r.Header.Set("Sec-Fetch-Mode", "no-cors")
	})
	require.Equal(t, http.StatusForbidden, status)
}

// spec: ui-8, ui-9
func TestPagesBehindAProxy(t *testing.T) {
	base := strings.TrimSuffix(startUI(t, "--uri", "grpc://127.0.0.1:1", "--behind-proxy", "penstock.example.com", "--listen", "localhost:0"), "/")
	status, _ := browse(t, &http.Client{}, base, unchanged)
	require.Equal(t, http.StatusUnauthorized, status)
	for host, want := range map[string]int{"penstock.example.com": http.StatusBadGateway, "other.example.com": http.StatusMisdirectedRequest} {
		status, _ = browse(t, &http.Client{}, base+"/datasets", func(r *http.Request) {
			r.Host = host
			r.Header.Set("Authorization", "Bearer x")
		})
		require.Equal(t, want, status, host) // no server runs there
	}
}

// spec: ui-8
func TestTokensOfViewersNeedServersThatCheckThem(t *testing.T) {
	for remedy, args := range map[string][]string{
		"nothing does":       {"--config", readLake(t).config},
		"cannot be used":     {"--uri", "grpc://127.0.0.1:1", "--token-file", "token"},
		"grpc+tls://other:1": {"--uri", "grpc://127.0.0.1:1,grpc://other:1"},
	} {
		var stderr strings.Builder
		p := process{terminal: terminal{stdin: strings.NewReader(""), stdout: io.Discard, stderr: &stderr}, environment: environment{clock: time.Now}}
		require.NotEqual(t, exitOK, p.run(t.Context(), append([]string{"ui", "--behind-proxy", "a.example"}, args...)))
		require.Contains(t, stderr.String(), remedy)
	}
}

// spec: ui-9
func TestPagesStayOnTheLoopback(t *testing.T) {
	run := func(args ...string) (int, string) {
		var stderr strings.Builder
		p := process{terminal: terminal{stdin: strings.NewReader(""), stdout: io.Discard, stderr: &stderr}, environment: environment{clock: time.Now}}
		return p.run(t.Context(), append([]string{"ui", "--config", readLake(t).config}, args...)), stderr.String()
	}
	for _, address := range []string{"0.0.0.0:0", "[::]:0", ":0", "192.0.2.1:0", "example.com:80"} {
		code, text := run("--listen", address)
		require.Equal(t, exitFailure, code, address)
		require.Contains(t, text, "--behind-proxy", address)
	}
	code, text := run("--listen", "8880")
	require.Equal(t, exitFailure, code)
	require.Contains(t, text, "write --listen 127.0.0.1:8880")
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close() //nolint:errcheck // it has no connections
	code, text = run("--listen", taken.Addr().String())
	require.Equal(t, exitFailure, code)
	require.Contains(t, text, "choose another port")
}

// The picture of a plan is written only when the plan is made.
//
// spec: ui-32
func TestExplainDraws(t *testing.T) {
	l := readLake(t)
	server := start(t, "--config", l.config)
	path := filepath.Join(t.TempDir(), "plan.svg")
	var pictures []string
	for _, from := range [][]string{{"--config", l.config}, {"--uri", server.uri(), "--json"}} {
		plain := run(t, append([]string{"explain", "home"}, from...)...)
		require.Equal(t, plain, run(t, append([]string{"explain", "home", "--svg", path}, from...)...))
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Contains(t, string(text), "Training rows by bucket")
		pictures = append(pictures, string(text))
	}
	require.Equal(t, pictures[0], pictures[1])
	require.Equal(t, exitFailure, run(t, "explain", "none", "--svg", path, "--config", l.config).code)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, pictures[0], string(text))
	got := run(t, "explain", "home", "--svg", "-", "--config", l.config)
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.stderr, "--svg -")
}

// Commands on a terminal name the page about their server or config file while it is shown, without the key of a link.
//
// spec: ui-36
func TestCommandsNameTheOpenPage(t *testing.T) {
	l := readLake(t)
	server := start(t, "--config", l.config)
	folder := t.TempDir()
	env := func(name string) (string, bool) {
		if name != "XDG_RUNTIME_DIR" {
			return "", false
		}
		return folder, true
	}
	link, end := startUIWith(t, env, "--uri", server.uri())
	base, _, _ := strings.Cut(link, "/enter?key=")
	noted := func(width int, args ...string) string {
		got := runWith(t, process{terminal: terminal{width: width}, environment: environment{env: env}}, args...)
		require.NotContains(t, got.stdout, base)
		return got.stderr
	}
	for path, args := range map[string][]string{"/": {"status"}, "/datasets/home": {"explain", "home"}, "/datasets": {"datasets"}} {
		args = append(args, "--uri", server.uri())
		require.Contains(t, noted(80, args...), "page: "+base+path+"\n")
		require.NotContains(t, noted(0, args...), "page:")
		require.NotContains(t, noted(80, append(args, "--json")...), "page:")
	}
	require.NotContains(t, noted(80, "explain", "home", "--config", l.config), "page:", "another source")
	end()
	require.NotContains(t, noted(80, "explain", "home", "--uri", server.uri()), "page:")
	files, err := os.ReadDir(filepath.Join(folder, "penstock"))
	require.NoError(t, err)
	require.Empty(t, files)
}
