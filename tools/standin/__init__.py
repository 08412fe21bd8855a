"""Stand-ins for AWS on the real Pulumi engine: resource plugins that keep an account's state in a folder."""
