"""The HTTP API, `/v1`: one file a noun, thin around the calls of `tacit.server.desk`."""
