# The worker's image. `docker build -t scheduler-worker .` needs nothing but this folder and a package index.
ARG PYTHON=python:3.13.7-slim-bookworm

FROM ${PYTHON} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
# What changes seldom comes first, so that a change of code builds in seconds.
COPY requirements.lock requirements-build.lock ./
RUN python -m venv /opt/worker \
    && /opt/worker/bin/python -m pip install --require-hashes -r requirements.lock \
    # The build tool stays outside of what is shipped.
    && python -m pip install --require-hashes -r requirements-build.lock
COPY pyproject.toml README.md LICENSE ./
COPY migrations ./migrations
COPY scheduler_worker ./scheduler_worker
RUN python -m pip wheel --no-deps --no-build-isolation --wheel-dir /dist . \
    && /opt/worker/bin/python -m pip install --no-deps --no-index /dist/*.whl \
    && /opt/worker/bin/python -m pip check \
    && /opt/worker/bin/python -m pip uninstall --yes pip

FROM ${PYTHON}
LABEL org.opencontainers.image.title="scheduler-worker" \
      org.opencontainers.image.description="Turns Flyte 2 trigger rows in Postgres into runs" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN groupadd --gid 10001 worker \
    && useradd --uid 10001 --gid worker --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin worker
COPY --from=build /opt/worker /opt/worker
ENV PATH=/opt/worker/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    SCHEDULER_HTTP_LISTEN=0.0.0.0:8080
USER 10001:10001
EXPOSE 8080
STOPSIGNAL SIGTERM
# Follows the port that is set, and no proxy.
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import http.client, os, sys; port = int(os.environ['SCHEDULER_HTTP_LISTEN'].rpartition(':')[2]); to = http.client.HTTPConnection('127.0.0.1', port, timeout=3); to.request('GET', '/healthz'); sys.exit(to.getresponse().status != 200)"]
ENTRYPOINT ["scheduler-worker"]
CMD ["run"]
