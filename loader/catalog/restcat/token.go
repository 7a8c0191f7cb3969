package restcat

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/fault"
)

// tokens returns bearer tokens: the configured token, or tokens that an OAuth2 server issues for
// client credentials.
type tokens struct {
	client *client
	grant  *clientGrant  // nil: the configured token is the only one
	turn   chan struct{} // a lock that guards the fields below
	token  string
	renew  time.Time // when to renew the token; zero: never
	ends   time.Time // when the token expires; zero if unknown
}

// clientGrant is the grant of client credentials (RFC 6749, section 4.4).
type clientGrant struct {
	endpoint string
	form     url.Values
}

// newTokens reads the properties for tokens. It returns nil if there is neither a token nor a
// credential.
func newTokens(c *client, properties map[string]string) (*tokens, error) {
	t := &tokens{client: c, token: properties[propertyToken], turn: make(chan struct{}, 1)}
	credential := properties[propertyCredential]
	if credential == "" {
		if t.token == "" {
			return nil, nil //nolint:nilnil // having no tokens is no error
		}
		return t, nil
	}
	endpoint := properties[propertyOAuth]
	if endpoint == "" {
		endpoint = properties[propertyOAuthOld]
	}
	if endpoint == "" {
		endpoint = c.base.String() + "/v1/oauth/tokens"
	} else if _, err := server(propertyOAuth, endpoint); err != nil {
		return nil, err
	}
	form := url.Values{"grant_type": {"client_credentials"}, "scope": {"catalog"}}
	if id, secret, two := strings.Cut(credential, ":"); two {
		form.Set("client_id", id)
		form.Set("client_secret", secret)
	} else {
		form.Set("client_secret", credential)
	}
	for _, name := range []string{propertyScope, propertyAudience, propertyResource} {
		if v := properties[name]; v != "" {
			form.Set(name, v)
		}
	}
	t.grant = &clientGrant{endpoint: endpoint, form: form}
	return t, nil
}

// get returns a token that should be valid, and renews it if necessary. Only one caller at a time
// renews it.
func (t *tokens) get(ctx context.Context) (string, error) {
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	now := t.client.now()
	if t.token != "" && (t.renew.IsZero() || now.Before(t.renew)) {
		return t.token, nil
	}
	if t.token == "" || !now.Before(t.ends) {
		err := t.fetch(ctx)
		return t.token, err
	}
	// The token is still valid. So the renewal may take only a part of the timeout, and if it
	// fails, a later call retries it.
	renewal, cancel := ctx, func() {}
	if timeout := t.client.options.Timeout; timeout > 0 {
		renewal, cancel = context.WithTimeout(ctx, timeout/earlyPart)
	}
	defer cancel()
	if t.fetch(renewal) != nil {
		t.renew = now.Add(t.ends.Sub(now) / 2)
	}
	return t.token, nil
}

// refused drops a token that the server rejected. It reports whether a new token can be requested.
func (t *tokens) refused(ctx context.Context, token string) bool {
	if t.grant == nil {
		return false
	}
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return true // the next call of get returns the error of ctx
	}
	if t.token == token {
		t.token, t.renew, t.ends = "", time.Time{}, time.Time{}
	}
	return true
}

// maxToken is the maximum size of a response with a token, in bytes.
const maxToken = 1 << 20

// A token is renewed when a quarter of its life is left, or maxEarly before it expires, whichever
// is later.
const (
	earlyPart = 4
	maxEarly  = time.Minute
)

// fetch requests a new token and stores it.
func (t *tokens) fetch(ctx context.Context) error {
	var answer struct {
		Token   string      `json:"access_token"`
		Type    string      `json:"token_type"`
		Seconds json.Number `json:"expires_in"` // some servers write a string
	}
	body := t.grant.form.Encode()
	asked := t.client.now()
	content, err := t.client.send(ctx, call{
		what: "ask for a token", plain: true, max: maxToken,
		request: func(ctx context.Context) (*http.Request, error) {
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, t.grant.endpoint, strings.NewReader(body))
			if err != nil {
				return nil, err
			}
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			return r, nil
		},
		failed: func(status int, message string) error {
			if status == http.StatusBadRequest || status == http.StatusUnauthorized || status == http.StatusForbidden {
				return fault.New(fault.Unavailable, "%s returned no token: %d %s", fault.RedactURI(t.grant.endpoint), status, message).
					WithRemedy("correct credential, scope and oauth2-server-uri of the catalog")
			}
			return nil
		},
	})
	if err != nil {
		return err
	}
	if json.Unmarshal(content, &answer) != nil || answer.Token == "" {
		return fault.New(fault.Unavailable, "the answer of %s has no token", fault.RedactURI(t.grant.endpoint)).
			WithRemedy("correct the catalog's oauth2-server-uri")
	}
	if answer.Type != "" && !strings.EqualFold(answer.Type, "bearer") {
		return fault.New(fault.Unavailable, "%s returned a token of type %q: only bearer is supported by this version", fault.RedactURI(t.grant.endpoint), answer.Type)
	}
	t.token, t.renew, t.ends = answer.Token, time.Time{}, time.Time{}
	seconds, _ := answer.Seconds.Float64() // 0 if unknown
	if life := time.Duration(seconds * float64(time.Second)); life > 0 && !asked.IsZero() {
		t.ends = asked.Add(life)
		t.renew = t.ends.Add(-min(life/earlyPart, maxEarly))
	}
	return nil
}
