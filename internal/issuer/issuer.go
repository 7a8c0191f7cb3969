// Package issuer checks the tokens (JWT, RFC 7519) of an issuer, such as an identity provider, by its public keys (JWKS,
// RFC 7517).
//
// A token is accepted if it is signed by a current key of the issuer, by an asymmetric algorithm that the key is for, names the
// issuer and the audience, is valid now, and has a subject. Everything else is refused: tokens without an expiry, secrets
// instead of keys, and non-canonical encodings.
package issuer

import (
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/identity"
	"github.com/penstock/penstock/internal/tokens"
)

const (
	// skew is how far the issuer's clock may differ.
	skew = time.Minute
	// maxEarly is by how much a token may be too early, beyond skew, so that the client tries again or asks another server.
	maxEarly = 10 * time.Minute
	// minRSA is the size of the smallest RSA key, in bits.
	minRSA = 2048
	// maxWaiting is how many tokens with unknown keys are remembered. Each takes about 100 bytes.
	maxWaiting = 1024
)

// algorithms returns the algorithms of signatures that are accepted. Those with a secret are not among them: with one, a public
// key would be taken for it.
func algorithms() []jose.SignatureAlgorithm {
	return []jose.SignatureAlgorithm{
		jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
	}
}

// Issuer checks tokens. It is safe for concurrent use.
type Issuer struct {
	name, audience string
	clock          func() time.Time
	unknownKey     func()
	maxAge         time.Duration               // of keys; 0: they are valid until they are replaced
	keys           atomic.Pointer[currentKeys] // those set last; never nil after SetKeys
	waiting        waitingTokens
}

// currentKeys is the keys that an issuer had at a time.
type currentKeys struct {
	keys []jose.JSONWebKey
	asOf time.Time // when their fetch started: later changes may be missing
}

// New returns an issuer without keys. unknownKey, which must not block, is called when a token names a key that the issuer does
// not have. It starts a fetch of the keys soon. If it is nil, keys are not fetched.
func New(name, audience string, clock func() time.Time, unknownKey func()) *Issuer {
	return &Issuer{name: name, audience: audience, clock: clock, unknownKey: unknownKey, waiting: waitingTokens{arrived: map[[sha256.Size]byte]time.Time{}}}
}

// LimitAge expires keys maxAge after SetKeys. It is called before the issuer is used.
func (i *Issuer) LimitAge(maxAge time.Duration) { i.maxAge = maxAge }

// SetKeys replaces the keys by those of a JWKS, whose fetch started at asOf. Keys that are not for signatures, or not public,
// are left out. If none is left, it fails, and the keys stay.
func (i *Issuer) SetKeys(text []byte, asOf time.Time) error {
	// Keys are decoded one by one: a set may have some of a type that is not known here.
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return fault.New(fault.Invalid, "the keys of the issuer are not a JWKS: %w", err)
	}
	keys := []jose.JSONWebKey{}
	for _, raw := range set.Keys {
		var key jose.JSONWebKey
		if json.Unmarshal(raw, &key) == nil && verifies(key) {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return fault.New(fault.Invalid, "the keys of the issuer have none that checks signatures: public keys of RSA from 2048 bits on, EC or Ed25519").
			WithRemedy("name the JWKS of the issuer, whose document /.well-known/openid-configuration has it as jwks_uri")
	}
	i.keys.Store(&currentKeys{keys, asOf})
	return nil
}

// verifies reports whether a key is for checking signatures.
func verifies(key jose.JSONWebKey) bool {
	if of, ok := key.Key.(*rsa.PublicKey); ok && of.N.BitLen() < minRSA {
		return false
	}
	return key.Valid() && key.IsPublic() && (key.Use == "" || key.Use == "sig")
}

// Caller returns the subject and the claims of a token. It returns Unauthenticated for one that is not accepted, and
// Unavailable for one whose key may not have been fetched yet, or if the keys are too old.
func (i *Issuer) Caller(token string) (identity.Caller, error) {
	if !canonical(token) {
		return identity.Caller{}, refused("it is not a signed JWT")
	}
	parsed, err := jwt.ParseSigned(token, algorithms())
	if err != nil || len(parsed.Headers) != 1 {
		return identity.Caller{}, refused("it is not a JWT with an asymmetric signature")
	}
	header := parsed.Headers[0]
	keys := i.keys.Load()
	if err := i.tooOld(keys); err != nil {
		return identity.Caller{}, err
	}
	key, found := keys.find(header.KeyID, header.Algorithm)
	if !found {
		return identity.Caller{}, i.withoutKey(keys, token, parsed)
	}
	var claims jwt.Claims
	var all map[string]any
	if err := parsed.Claims(key.Key, &claims, &all); err != nil {
		return identity.Caller{}, refused("its signature does not match")
	}
	subject, err := i.subjectOf(claims)
	if err != nil {
		return identity.Caller{}, err
	}
	return identity.Caller{Subject: subject, Claims: texts(all)}, nil
}

// withoutKey returns why a token is not accepted whose key is not among keys. It returns Unavailable only while a fetch could
// bring the key.
func (i *Issuer) withoutKey(keys *currentKeys, token string, parsed *jwt.JSONWebToken) error {
	// No key makes other claims valid.
	var claims jwt.Claims
	if parsed.UnsafeClaimsWithoutVerification(&claims) != nil {
		return refused("its claims are not a JSON object")
	}
	if _, err := i.subjectOf(claims); err != nil {
		return err
	}
	switch {
	case keys != nil && parsed.Headers[0].KeyID == "":
		return refused("it names no key, and its issuer has several, or one for another algorithm")
	case i.unknownKey == nil:
		return noSuchKey()
	}
	arrived := i.waiting.since(token, i.clock())
	i.unknownKey()
	if keys != nil && keys.asOf.After(arrived) {
		return noSuchKey()
	}
	e := fault.New(fault.Unavailable, "the token names a key that its issuer did not have when its keys were fetched; they are fetched again")
	e.RetryAfter = time.Second
	return e.WithRemedy("try again; if this continues, see the log of the server: the keys cannot be fetched")
}

// noSuchKey refuses a token that another issuer has signed, or whose key was withdrawn.
func noSuchKey() error {
	return fault.New(fault.Unauthenticated, "the token is not accepted: it names a key that its issuer does not have").
		WithRemedy("get a new one from its issuer, which may have withdrawn the key, and check that it is the server's jwt_issuer")
}

// waitingTokens are tokens whose keys were unknown, and when each arrived first. Whole tokens count, not the keys that they
// name: a client could name the next key of the issuer before it exists, and the first true token of that key would be refused.
// At most maxWaiting are kept. A token that is forgotten counts as new, so a flood of tokens refuses none that is valid.
type waitingTokens struct {
	mu      sync.Mutex
	arrived map[[sha256.Size]byte]time.Time // by digest
}

// since returns when a token arrived first, which is now unless it is known.
func (w *waitingTokens) since(token string, now time.Time) time.Time {
	digest := sha256.Sum256([]byte(token))
	w.mu.Lock()
	defer w.mu.Unlock()
	if first, known := w.arrived[digest]; known {
		return first
	}
	if len(w.arrived) == maxWaiting {
		for other := range w.arrived {
			delete(w.arrived, other)
			break
		}
	}
	w.arrived[digest] = now
	return now
}

// texts returns the claims that are texts or lists of texts. Other values, and lists that have some, name no group.
func texts(claims map[string]any) map[string][]string {
	out := map[string][]string{}
	for name, value := range claims {
		list, ok := value.([]any)
		if !ok {
			list = []any{value}
		}
		values := make([]string, 0, len(list))
		for _, one := range list {
			if text, ok := one.(string); ok {
				values = append(values, text)
			}
		}
		if len(values) == len(list) && len(values) > 0 {
			out[name] = values
		}
	}
	return out
}

// tooOld returns an error if the keys are older than they may be: one of them may have been revoked meanwhile.
func (i *Issuer) tooOld(keys *currentKeys) error {
	if keys == nil || i.maxAge == 0 {
		return nil
	}
	if age := i.clock().Sub(keys.asOf); age > i.maxAge {
		if i.unknownKey != nil {
			i.unknownKey()
		}
		e := fault.New(fault.Unavailable, "the keys of the issuer were last fetched %s ago, which is longer than jwt_keys_max_age, %s", age.Round(time.Second), i.maxAge)
		e.RetryAfter = time.Second
		return e.WithRemedy("try again; the server's log says why they cannot be fetched")
	}
	return nil
}

// subjectOf checks the claims of a token whose signature matches, and returns the subject.
func (i *Issuer) subjectOf(claims jwt.Claims) (string, error) {
	if claims.Expiry == nil {
		return "", refused("it does not expire")
	}
	err := claims.ValidateWithLeeway(jwt.Expected{Issuer: i.name, AnyAudience: jwt.Audience{i.audience}, Time: i.clock()}, skew)
	switch {
	case errors.Is(err, jwt.ErrExpired):
		return "", fault.New(fault.Unauthenticated, "the token expired at %s", claims.Expiry.Time().UTC().Format(time.RFC3339)).
			WithRemedy("get a new one from its issuer")
	case errors.Is(err, jwt.ErrInvalidIssuer):
		return "", refused("it has another issuer")
	case errors.Is(err, jwt.ErrInvalidAudience):
		return "", refused("it is for another audience")
	case err != nil:
		return "", i.tooEarly(claims)
	}
	if message := tokens.SubjectFault(claims.Subject); message != "" {
		return "", refused(message)
	}
	return claims.Subject, nil
}

// tooEarly returns the error for a token that is not valid yet. The clock of this server may be behind: another server may accept the
// token, and this one soon does if the difference is small.
func (i *Issuer) tooEarly(claims jwt.Claims) error {
	now, from := i.clock(), time.Time{}
	for _, date := range []*jwt.NumericDate{claims.NotBefore, claims.IssuedAt} {
		if date != nil && date.Time().After(from) {
			from = date.Time()
		}
	}
	early := from.Sub(now)
	kind := fault.Unauthenticated
	if early <= skew+maxEarly {
		kind = fault.Unavailable
	}
	e := fault.New(kind, "the token is not valid yet: it is valid from %s, which is %s after the time of this server, %s",
		from.UTC().Format(time.RFC3339), early.Round(time.Second), now.UTC().Format(time.RFC3339))
	if kind == fault.Unavailable {
		e.RetryAfter = time.Second
	}
	return e.WithRemedy("correct the clock of the server or that of the issuer; another server may accept the token")
}

func refused(why string) error {
	return fault.New(fault.Unauthenticated, "the token is not accepted: %s", why).
		WithRemedy("send a token of the issuer and for the audience that the server's jwt_issuer and jwt_audience name")
}

// find returns the key with an id that is for an algorithm. A token that names none has the only key.
func (keys *currentKeys) find(id, algorithm string) (jose.JSONWebKey, bool) {
	if keys == nil {
		return jose.JSONWebKey{}, false
	}
	for _, key := range keys.keys {
		if (key.KeyID == id || id == "" && len(keys.keys) == 1) && (key.Algorithm == "" || key.Algorithm == algorithm) {
			return key, true
		}
	}
	return jose.JSONWebKey{}, false
}

// canonical reports whether a token has three parts in base64 that have no other form: bits that decoding ignores could be
// changed otherwise.
func canonical(token string) bool {
	const parts = 3
	all := strings.Split(token, ".")
	for _, part := range all {
		raw, err := base64.RawURLEncoding.DecodeString(part)
		if err != nil || base64.RawURLEncoding.EncodeToString(raw) != part {
			return false
		}
	}
	return len(all) == parts
}
