"""structlog, configured in this one place.

Events are short constant phrases, facts are keys, so that grep and a dashboard both work.
"""

import logging
import sys

import structlog


def configure(*, json: bool, verbose: bool) -> None:
    """Log to standard error: JSON lines or a console format, from info or from debug."""
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if json
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.DEBUG if verbose else logging.INFO
        ),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def logger(room: str) -> structlog.typing.FilteringBoundLogger:
    """Return the logger of a room."""
    bound: structlog.typing.FilteringBoundLogger = structlog.get_logger(room=room)
    return bound
