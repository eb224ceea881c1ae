package config

import "fmt"

// checkKeys decides whose credentials sign: those that are given, or, when no key is, those of this process (contract B11). What is given by
// half is refused: the other half would be looked for somewhere else, and the wrong key found.
func (k *Sink) checkKeys(env environment) error {
	for _, pair := range [][2]string{{"QUEEN_S3_SECRET_KEY", "QUEEN_S3_ACCESS_KEY"}, {"QUEEN_S3_ACCESS_KEY", "QUEEN_S3_SECRET_KEY"}} {
		if _, given := env[pair[0]]; given && env[pair[1]] == "" {
			return fmt.Errorf("%s is not set: it is %s", pair[1], purpose(pair[1]))
		}
	}
	if k.AccessKey != "" {
		return nil
	}
	if k.SessionToken.Set() {
		return fmt.Errorf("QUEEN_S3_SESSION_TOKEN is set but QUEEN_S3_ACCESS_KEY is not: the token would be ignored")
	}
	k.Ambient = true
	return halfGiven(env)
}

// halfGiven names the first variable of the AWS SDK that says nothing without another one, which is not set. The SDK would go on to the next way
// of finding credentials, in silence.
func halfGiven(env environment) error {
	first := func(names ...string) string {
		for _, name := range names {
			if env[name] != "" {
				return name
			}
		}
		return ""
	}
	id, secret := first("AWS_ACCESS_KEY_ID", "AWS_ACCESS_KEY"), first("AWS_SECRET_ACCESS_KEY", "AWS_SECRET_KEY")
	token, role := first("AWS_WEB_IDENTITY_TOKEN_FILE"), first("AWS_ROLE_ARN")
	for _, half := range []struct{ given, missing, named string }{
		{id, secret, "AWS_SECRET_ACCESS_KEY"}, {secret, id, "AWS_ACCESS_KEY_ID"},
		{token, role, "AWS_ROLE_ARN"}, {role, token, "AWS_WEB_IDENTITY_TOKEN_FILE"},
	} {
		if half.given != "" && half.missing == "" {
			return fmt.Errorf("%s is set but %s is not: it would be ignored. Set both or none, "+
				"or give QUEEN_S3_ACCESS_KEY and QUEEN_S3_SECRET_KEY", half.given, half.named)
		}
	}
	return nil
}

func purpose(name string) string {
	for _, s := range Settings() {
		if s.Env == name {
			return s.Purpose
		}
	}
	return ""
}
