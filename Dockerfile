# An image with zbk: `docker build -t zbk:0.1.0 .`; docs/how-to shows what runs it.
#
# The container needs a volume at /data, and otherwise works on a read-only root file system. The
# process is the container's first, so signals reach it: SIGTERM ends a bookie after a checkpoint.

FROM python:3.13-slim AS build
WORKDIR /src
COPY requirements/build.txt requirements/run.txt requirements/
RUN pip install --no-cache-dir --require-hashes -r requirements/build.txt
RUN python3 -m venv --without-pip /opt/zbk \
 && pip --python /opt/zbk/bin/python3 install --no-cache-dir --require-hashes --only-binary :all: -r requirements/run.txt
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY zbk zbk
COPY spark spark
RUN python3 -m hatchling build -t wheel -d /tmp/wheel \
 && pip --python /opt/zbk/bin/python3 install --no-cache-dir --no-deps /tmp/wheel/*.whl

FROM python:3.13-slim
COPY --from=build /opt/zbk /opt/zbk
RUN install -d -o 10001 -g 10001 -m 0750 /data /data/journal /data/ledgers /run/zbk
ENV PATH=/opt/zbk/bin:$PATH \
    HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1 \
    ZBK_BOOKIE_JOURNAL_DIR=/data/journal/zbk \
    ZBK_BOOKIE_LEDGER_DIR=/data/ledgers/zbk \
    ZBK_BOOKIE_LISTEN=tcp://0.0.0.0:3181 \
    ZBK_BOOKIE_HTTP=0.0.0.0:9181 \
    ZBK_AUTORECOVERY_HTTP=0.0.0.0:9181
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 3181 9181
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=10m --retries=6 \
  CMD ["python3", "-c", "import http.client as c; h = c.HTTPConnection('127.0.0.1', 9181, timeout=3); h.request('GET', '/readyz'); exit(h.getresponse().status != 200)"]
CMD ["zbk", "bookie", "run", "--log-format", "json"]
