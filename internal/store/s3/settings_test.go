package s3_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store/s3"
)

// TestFromProperties: PyIceberg's names mean what they mean there.
func TestFromProperties(t *testing.T) {
	for name, c := range map[string]struct {
		given map[string]string
		want  s3.Settings
		used  []string
	}{
		"nothing": {map[string]string{"uri": "http://x", "s3.signer": "S3V4RestSigner"}, s3.Settings{}, nil},
		"an endpoint has paths": {
			map[string]string{"s3.endpoint": "http://127.0.0.1:9000", "s3.region": "eu-west-1"},
			s3.Settings{Endpoint: "http://127.0.0.1:9000", Region: "eu-west-1", PathStyle: true},
			[]string{"s3.endpoint", "s3.region"},
		},
		"virtual addressing is forced": {
			map[string]string{"s3.endpoint": "http://h", "s3.force-virtual-addressing": "True"},
			s3.Settings{Endpoint: "http://h"},
			[]string{"s3.endpoint", "s3.force-virtual-addressing"},
		},
		"virtual addressing is not forced": {
			map[string]string{"s3.endpoint": "http://h", "s3.force-virtual-addressing": "false"},
			s3.Settings{Endpoint: "http://h", PathStyle: true},
			[]string{"s3.endpoint", "s3.force-virtual-addressing"},
		},
		"paths without an endpoint": {
			map[string]string{"s3.path-style-access": "true"}, s3.Settings{PathStyle: true}, []string{"s3.path-style-access"},
		},
		"no paths with an endpoint": {
			map[string]string{"s3.endpoint": "http://h", "s3.path-style-access": "false"},
			s3.Settings{Endpoint: "http://h"},
			[]string{"s3.endpoint", "s3.path-style-access"},
		},
		"s3 wins over client": {
			map[string]string{
				"client.region": "a", "s3.region": "b", "client.access-key-id": "id", "client.secret-access-key": "secret", "s3.session-token": "token",
				"client.profile-name": "p",
			},
			s3.Settings{Region: "b", AccessKeyID: "id", SecretAccessKey: "secret", SessionToken: "token", Profile: "p"},
			[]string{"client.access-key-id", "client.profile-name", "client.region", "client.secret-access-key", "s3.region", "s3.session-token"},
		},
		"roles and times": {
			map[string]string{
				"s3.role-arn": "arn:aws:iam::1:role/r", "s3.role-session-name": "n", "s3.connect-timeout": "1.5", "s3.request-timeout": "60",
				"s3.proxy-uri": "http://u:p@h:1",
			},
			s3.Settings{
				RoleARN: "arn:aws:iam::1:role/r", RoleSessionName: "n", ConnectTimeout: 1500 * time.Millisecond, RequestTimeout: time.Minute,
				ProxyURI: "http://u:p@h:1",
			},
			[]string{"s3.connect-timeout", "s3.proxy-uri", "s3.request-timeout", "s3.role-arn", "s3.role-session-name"},
		},
		"anonymous": {map[string]string{"s3.anonymous": "true"}, s3.Settings{Anonymous: true}, []string{"s3.anonymous"}},
	} {
		got, used, err := s3.FromProperties(c.given)
		require.NoError(t, err, name)
		require.Equal(t, c.want, got, name)
		require.Equal(t, c.used, used, name)
	}
}

// TestInvalidProperties are reported together, without their secrets.
func TestInvalidProperties(t *testing.T) {
	_, _, err := s3.FromProperties(map[string]string{
		"s3.endpoint": "user:hunter2@host", "s3.proxy-uri": "ftp://h", "s3.connect-timeout": "-1", "s3.request-timeout": "1m", "s3.anonymous": "maybe",
		"s3.force-virtual-addressing": "perhaps", "s3.access-key-id": "id", "s3.role-session-name": "n",
	})
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	var fields []string
	for _, f := range fault.As(err).Faults {
		fields = append(fields, f.Field)
	}
	require.ElementsMatch(t, []string{
		"s3.endpoint", "s3.proxy-uri", "s3.connect-timeout", "s3.request-timeout", "s3.anonymous", "s3.force-virtual-addressing", "s3.secret-access-key", "s3.role-session-name",
	}, fields)
	require.NotContains(t, err.Error(), "hunter2")
	for _, given := range []map[string]string{
		{"s3.path-style-access": "true", "s3.force-virtual-addressing": "true"},
		{"s3.path-style-access": "x"},
		{"s3.anonymous": "true", "s3.access-key-id": "a", "s3.secret-access-key": "b"},
		{"s3.secret-access-key": "b"},
		{"s3.session-token": "b"},
		{"s3.request-timeout": "NaN"},
	} {
		_, _, err := s3.FromProperties(given)
		require.Equal(t, fault.Invalid, fault.KindOf(err), given)
	}
}

// TestNewSendsNoRequest checks that a store is created without a network, whatever its
// settings are, and that an unknown profile is refused at once.
func TestNewSendsNoRequest(t *testing.T) {
	t.Setenv("AWS_CONFIG_FILE", t.TempDir()+"/none")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", t.TempDir()+"/none")
	for _, settings := range []s3.Settings{
		{}, {RoleARN: "arn:aws:iam::1:role/r"}, {Endpoint: "http://192.0.2.1:1"}, {Anonymous: true},
	} {
		_, err := s3.New(t.Context(), s3.Options{Settings: settings})
		require.NoError(t, err)
	}
	_, err := s3.New(t.Context(), s3.Options{Settings: s3.Settings{Profile: "nobody"}})
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.ErrorContains(t, err, "nobody")
}

// answersTokens stands for the token service: it answers an action with keys that are
// valid for so long, and shows what it was asked.
func answersTokens(t *testing.T, action string, valid time.Duration, asked func(r *http.Request)) {
	t.Helper()
	sts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		if r.Form.Get("Action") != action {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		asked(r)
		_, _ = fmt.Fprintf(w, `<%[1]sResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><%[1]sResult><Credentials>
			<AccessKeyId>rolekey</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>
			<Expiration>%[2]s</Expiration></Credentials></%[1]sResult></%[1]sResponse>`, action, time.Now().Add(valid).UTC().Format(time.RFC3339))
	}))
	t.Cleanup(sts.Close)
	t.Cleanup(sts.CloseClientConnections)
	t.Setenv("AWS_ENDPOINT_URL_STS", sts.URL)
}

// TestProfileAndRole: a role is assumed with the keys of a profile, in a session of the
// name given, when the first file is read.
func TestProfileAndRole(t *testing.T) {
	shared := filepath.Join(t.TempDir(), "credentials")
	require.NoError(t, os.WriteFile(shared, []byte("[trainer]\naws_access_key_id = profilekey\naws_secret_access_key = s\n"), 0o600))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", shared)
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "none"))
	var asked []string
	answersTokens(t, "AssumeRole", time.Hour, func(r *http.Request) {
		asked = append(asked, r.Header.Get("Authorization"), r.Form.Get("RoleArn"), r.Form.Get("RoleSessionName"))
	})
	f := newFake(t, digits(10))
	s := f.open(t, func(o *s3.Options) {
		o.Settings = s3.Settings{Endpoint: f.URL, PathStyle: true, Profile: "trainer", RoleARN: "arn:aws:iam::1:role/r", RoleSessionName: "night"}
	})
	require.Empty(t, asked)
	o, err := s.Open(t.Context(), location, 10)
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, o.ReadAt(t.Context(), memory.NewBufferBytes(make([]byte, 10)), 0))
	}
	require.Len(t, asked, 3)
	require.Contains(t, asked[0], "Credential=profilekey/")
	require.Equal(t, []string{"arn:aws:iam::1:role/r", "night"}, asked[1:])
	require.Contains(t, f.requests[0].Header.Get("Authorization"), "Credential=rolekey/")
	require.Equal(t, "t", f.requests[0].Header.Get("X-Amz-Security-Token"))
}

// TestWebIdentity: where the environment has a role and a token file, as pods on EKS do,
// the token is what the keys are asked with, unsigned. When the keys end, the file is read
// again: it was replaced in the meantime.
func TestWebIdentity(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	for _, unset := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"} {
		t.Setenv(unset, "")
	}
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", none)
	t.Setenv("AWS_CONFIG_FILE", none)
	token := filepath.Join(t.TempDir(), "token")
	t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", token)
	t.Setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/pod")
	t.Setenv("AWS_ROLE_SESSION_NAME", "trainer")
	var asked []string
	answersTokens(t, "AssumeRoleWithWebIdentity", time.Second, func(r *http.Request) {
		require.Empty(t, r.Header.Get("Authorization"))
		require.Equal(t, "arn:aws:iam::1:role/pod trainer", r.Form.Get("RoleArn")+" "+r.Form.Get("RoleSessionName"))
		asked = append(asked, r.Form.Get("WebIdentityToken"))
	})
	f := newFake(t, digits(10))
	s := f.open(t, func(o *s3.Options) { o.Settings = s3.Settings{Endpoint: f.URL, PathStyle: true} })
	o, err := s.Open(t.Context(), location, 10)
	require.NoError(t, err)
	for _, content := range []string{"first", "second"} {
		require.NoError(t, os.WriteFile(token, []byte(content), 0o600))
		require.NoError(t, o.ReadAt(t.Context(), memory.NewBufferBytes(make([]byte, 10)), 0))
	}
	require.Equal(t, []string{"first", "second"}, asked)
	require.Contains(t, f.requests[1].Header.Get("Authorization"), "Credential=rolekey/")
	require.Equal(t, "t", f.requests[1].Header.Get("X-Amz-Security-Token"))
}

// What PyIceberg takes for true and false is taken for that.
func TestWordsForTrueAndFalse(t *testing.T) {
	for word, want := range map[string]bool{"true": true, "True": true, "yes": true, "On": true, "1": true, "y": true, "false": false, "No": false, "off": false, "0": false} {
		got, _, err := s3.FromProperties(map[string]string{"s3.path-style-access": word, "s3.anonymous": word})
		require.NoError(t, err, word)
		require.Equal(t, want, got.PathStyle, word)
		require.Equal(t, want, got.Anonymous, word)
	}
}
