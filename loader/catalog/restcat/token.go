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

// tokens are bearer tokens: one that was given, or those that the server of OAuth2 gives
// for a client's credentials.
type tokens struct {
	catalog *Catalog
	grant   *clientGrant  // nil: the token that was given is the only one
	turn    chan struct{} // held by who reads or changes what follows
	token   string
	renew   time.Time // from when on another one is asked for; zero: never
	ends    time.Time // zero: nobody knows
}

// clientGrant is the grant of client credentials (RFC 6749, section 4.4).
type clientGrant struct {
	endpoint string
	form     url.Values
}

// newTokens reads how the server is to be convinced; nil: not by tokens.
func newTokens(c *Catalog, properties map[string]string) (*tokens, error) {
	t := &tokens{catalog: c, token: properties[propertyToken], turn: make(chan struct{}, 1)}
	credential := properties[propertyCredential]
	if credential == "" {
		if t.token == "" {
			return nil, nil //nolint:nilnil // no tokens are no failure
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

// get returns a token that should be good. One is asked for at a time.
func (t *tokens) get(ctx context.Context) (string, error) {
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	now := t.catalog.now()
	if t.token != "" && (t.renew.IsZero() || now.Before(t.renew)) {
		return t.token, nil
	}
	if t.token == "" || !now.Before(t.ends) {
		err := t.fetch(ctx)
		return t.token, err
	}
	// It is still good for a while: who asks keeps the most of its time, and what fails now
	// is tried again later.
	renewal, cancel := ctx, func() {}
	if timeout := t.catalog.options.Timeout; timeout > 0 {
		renewal, cancel = context.WithTimeout(ctx, timeout/earlyPart)
	}
	defer cancel()
	if t.fetch(renewal) != nil {
		t.renew = now.Add(t.ends.Sub(now) / 2)
	}
	return t.token, nil
}

// refused says that the server does not take a token any more, and returns whether
// another one can be had while ctx lasts.
func (t *tokens) refused(ctx context.Context, token string) bool {
	if t.grant == nil {
		return false
	}
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return true // to learn that ctx has ended
	}
	if t.token == token {
		t.token, t.renew, t.ends = "", time.Time{}, time.Time{}
	}
	return true
}

// mostToken is the most bytes of an answer with a token.
const mostToken = 1 << 20

// How long before its end a token is renewed: a quarter of its life, at the most a minute.
const (
	earlyPart = 4
	earlyMost = time.Minute
)

// fetch asks for a token.
func (t *tokens) fetch(ctx context.Context) error {
	var answer struct {
		Token   string      `json:"access_token"`
		Type    string      `json:"token_type"`
		Seconds json.Number `json:"expires_in"` // some write it as text
	}
	body := t.grant.form.Encode()
	asked := t.catalog.now()
	content, err := t.catalog.send(ctx, call{
		what: "ask for a token", plain: true, most: mostToken,
		request: func(ctx context.Context) (*http.Request, error) {
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, t.grant.endpoint, strings.NewReader(body))
			if err != nil {
				return nil, err
			}
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			return r, nil
		},
		failed: func(status int, said string) error {
			if status == http.StatusBadRequest || status == http.StatusUnauthorized || status == http.StatusForbidden {
				return fault.New(fault.Unavailable, "%s gives no token: %d %s", fault.RedactURI(t.grant.endpoint), status, said).
					WithRemedy("correct credential, scope and oauth2-server-uri of the catalog")
			}
			return nil
		},
	})
	if err != nil {
		return err
	}
	if json.Unmarshal(content, &answer) != nil || answer.Token == "" {
		return fault.New(fault.Unavailable, "%s gives no token in its answer", fault.RedactURI(t.grant.endpoint)).
			WithRemedy("correct the catalog's oauth2-server-uri")
	}
	if answer.Type != "" && !strings.EqualFold(answer.Type, "bearer") {
		return fault.New(fault.Unavailable, "%s gives a token of type %q: only bearer is served by this version", fault.RedactURI(t.grant.endpoint), answer.Type)
	}
	t.token, t.renew, t.ends = answer.Token, time.Time{}, time.Time{}
	seconds, _ := answer.Seconds.Float64() // 0: nobody says when it ends
	if life := time.Duration(seconds * float64(time.Second)); life > 0 && !asked.IsZero() {
		t.ends = asked.Add(life)
		t.renew = t.ends.Add(-min(life/earlyPart, earlyMost))
	}
	return nil
}
