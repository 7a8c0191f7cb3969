package hostport_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/hostport"
)

func TestSplit(t *testing.T) {
	for text, want := range map[string][2]string{
		"a:1": {"a", "1"}, ":0": {"", "0"}, "[::1]:65535": {"::1", "65535"}, "[fe80::1%eth0]:8815": {"fe80::1%eth0", "8815"},
	} {
		host, port, err := hostport.Split(text, "8815")
		require.NoError(t, err, text)
		require.Equal(t, want, [2]string{host, port}, text)
	}
}

// An error says what an address has and lacks, and proposes one that can be split.
func TestFaultsOfAddresses(t *testing.T) {
	for text, want := range map[string]string{
		"127.0.0.1":           "has the host 127.0.0.1 and no port; write 127.0.0.1:8815",
		"train01.example":     "has the host train01.example and no port; write train01.example:8815",
		"train01:":            "has the host train01 and no port; write train01:8815",
		"[::1]":               "has the host ::1 and no port; write [::1]:8815",
		"[::1]:":              "has the host ::1 and no port; write [::1]:8815",
		"::1":                 "is an IPv6 address without brackets, and has no port; write [::1]:8815",
		"::":                  "is an IPv6 address without brackets, and has no port; write [::]:8815",
		"fe80::1:8815":        "has an IPv6 address without brackets; write [fe80::1]:8815",
		"fe80::1:8816":        "is an IPv6 address without brackets, and has no port; write [fe80::1:8816]:8815",
		"1:2:3:4:5:6:7:8:443": "has an IPv6 address without brackets; write [1:2:3:4:5:6:7:8]:443",
		"8815":                "has a port and no host; write 127.0.0.1:8815",
		"host:port":           "has a port that is not a number from 0 to 65535",
		"host:65536":          "has a port that is not a number from 0 to 65535",
		"host:-1":             "has a port that is not a number from 0 to 65535",
		"host:1:2":            "is not of the form host:port",
		"[::1":                "has the host ::1 and no port; write [::1]:8815",
		"user:pw@host:1":      "is not of the form host:port",
		"host/a":              "is not of the form host:port",
		"":                    "is not of the form host:port",
		":":                   "has neither a host nor a port",
		"[]":                  "has neither a host nor a port",
	} {
		_, _, err := hostport.Split(text, "8815")
		require.EqualError(t, err, want, text)
		problem, ok := err.(*hostport.Problem) //nolint:errorlint // every error is one
		require.True(t, ok)
		if problem.Write != "" {
			_, _, err := hostport.Split(problem.Write, "8815")
			require.NoError(t, err, text)
		}
	}
}
