"""Settings of a link: sysctls, ethtool, driver settings and rate limits."""
