# A judge behind HTTP, on a CPU or a GPU:
#
#   docker build -t medal-judges .
#   docker run -p 8000:8000 -e MEDAL_JUDGES_TOKEN medal-judges     # the judge in the package
#   docker run -p 8000:8000 -e MEDAL_JUDGES_TOKEN -v $PWD/runs/mine:/judge:ro medal-judges /judge
#
# torch's default wheel for Linux brings its CUDA libraries (add --gpus all to docker run). For a
# smaller image without them: --build-arg TORCH_INDEX=ADDRESS, PyTorch's index of CPU wheels.
#
# tests/inference/serving/test_dockerfile.py runs the RUN steps in a fresh virtual environment, all
# but those under "system:", which need the image itself.
ARG PYTHON=3.12
FROM python:${PYTHON}-slim
ARG TORCH=torch==2.13.0
ARG TORCH_INDEX=
ARG EXTRAS=serve,llm,api,lora,lang
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONUNBUFFERED=1

# system: nothing in the container needs to be root
RUN useradd --create-home --uid 10001 judge

# torch by itself: it is large, and stays where only this package changes
RUN python -m pip install ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} "$TORCH"

WORKDIR /source
COPY . .
RUN python -m pip install ".[$EXTRAS]" \
    && medal serve --help > /dev/null

USER judge
WORKDIR /home/judge
EXPOSE 8000
HEALTHCHECK --start-period=60s CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/health')"]
# A token in MEDAL_JUDGES_TOKEN is needed: the address is open to other machines.
ENTRYPOINT ["medal", "serve", "--host", "0.0.0.0"]
