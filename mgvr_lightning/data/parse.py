"""The data that configurations of `fit` name, without the rest of them."""

from mgvr_lightning.data import catalogue  # noqa: F401  (configurations name its classes)
from mgvr_lightning.data.text import Text
from mgvr_lightning.data.token_data import TokenData
from mgvr_lightning.parser import Parser


def data_parser(prog: str, description: str, env_prefix: str) -> Parser:
    """A parser of `data` that takes configurations of `fit`."""
    parser = Parser(prog=prog, description=description, default_env=True, env_prefix=env_prefix)
    parser.add_argument("--config", "-c", action="config", help="a configuration file; may be given again")
    parser.add_lightning_class_args(TokenData, "data", subclass_mode=True)
    parser.set_defaults({"data": {"class_path": f"{Text.__module__}.{Text.__name__}"}})
    parser.ignore_but("data")
    return parser


def parse_data(configs: list[str]) -> TokenData:
    """The data of configuration files, later ones laid over earlier ones."""
    parser = data_parser("mgvr_lightning", "", "MGVR_DATA")
    config = parser.parse_args([argument for path in configs for argument in ("--config", path)])
    data: TokenData = parser.instantiate(config).data
    return data
